/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Map contents that receive_window.bpf.c and the agent (agent/caps/receivewindow) share.
 */
#ifndef RECEIVE_WINDOW_H
#define RECEIVE_WINDOW_H

#include <linux/types.h>

#define FLOWS_MAX (1 << 14)
#define OPENINGS_MAX (1 << 12)
#define STRANGERS_MAX (1 << 12)
#define CAPS_MAX 4096

/* A cap applies to all connections of an address pair. IPv4 is mapped into IPv6 (RFC 4291, 2.5.5.2). */
struct pair {
	__u8 terminal[16], other[16];
};

struct ends {
	struct pair pair;
	__be16 terminal_port, other_port;
};

struct settings {
	__u64 lease_until_ns;	/* bpf_ktime_get_ns(); after it there are no caps */
};

/* Options of a SYN. */
struct syn_options {
	__u16 mss_bytes;	/* without the option: the protocol's minimum */
	__u8 scale, has_scale;
	__u8 has_timestamps;		/* has timestamps (RFC 7323) */
	__u8 capable, joined;	/* MPTCP (RFC 8684): MP_CAPABLE, MP_JOIN */
	__u8 pad;
};

/* A connection whose SYN has no answer yet. */
struct opening {
	__u64 at_ns;
	__u32 isn;
	__u32 bytes;		/* of data in the SYN (RFC 7413) */
	__u8 by_terminal;
	__u8 repeated;
	__u8 answered;
	__u8 pad[5];
	struct syn_options syn_options;
};

/* Minimum and smoothed round trip; srtt8_us is 8 times the latter, for RFC 6298's gain of 1/8 in integers. */
struct half {
	__u32 min_us, srtt8_us;	/* 0: not measured yet */
};

/* A connection. Each direction writes its own fields; concurrent CPUs may lose a sample. */
struct flow {
	__u64 seen_ns;		/* last packet of either direction */
	__u64 data_ns;		/* last data from the terminal, or the handshake */
	__u64 acked_bytes;	/* since the first packet seen */
	__u64 allowed_bytes;	/* cap on the window; 0: none */
	__u64 allowed_ns;	/* time of that decision */
	__u64 far_ns;		/* when the data that ends at far_end passed; 0: no sample pending */
	__u64 near_ns;		/* when the timestamp near_value passed; 0: likewise */
	__u64 syn_ack_ns;	/* when the SYN-ACK passed to the terminal; 0: likewise */
	struct half far, near;	/* port to other end and back; port to terminal and back */
	__u32 acked, sent;	/* sequence numbers of the terminal's data */
	__u32 far_end;
	__u32 near_value, near_latest;
	__u32 edge;		/* greatest right edge advertised: ACK plus window */
	__u16 segment_bytes;	/* data in a full segment */
	__u16 mss_bytes;
	__u8 scale, has_scale;	/* of the other end's windows */
	__u8 mptcp, joined;
	__u8 has_acked, has_sent, has_edge, has_latest;
	__u8 near_busy;		/* the terminal sent data during the sample */
	__u8 finished;		/* FINISHED_* */
	__u8 pad[2];
};

#define FINISHED_TERMINAL 1
#define FINISHED_OTHER 2
#define FINISHED_RESET 4

#endif
