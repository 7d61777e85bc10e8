/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs at the ports of terminals that lower windows and the agent (agent/caps/receivewindow, in Go) share:
 * the maps' contents.
 */
#ifndef RECEIVE_WINDOW_H
#define RECEIVE_WINDOW_H

#include <linux/types.h>

#define FLOWS_MAX (1 << 14)
#define OPENINGS_MAX (1 << 12)
#define STRANGERS_MAX (1 << 12)
#define CAPS_MAX 4096

/* A cap is of all connections between two. IPv4 is mapped into IPv6 (RFC 4291, 2.5.5.2). */
struct pair {
	__u8 terminal[16], other[16];
};

struct ends {
	struct pair pair;
	__be16 terminal_port, other_port;
};

struct settings {
	__u64 lease_until_ns;	/* of bpf_ktime_get_ns(): until when caps hold */
};

/* What the sender of a first segment (SYN) says there. */
struct greeting {
	__u16 mss_bytes;	/* what it leaves open is the least that all must take */
	__u8 scale, has_scale;
	__u8 stamped;		/* has timestamps (RFC 7323) */
	__u8 capable, joined;	/* MPTCP (RFC 8684): MP_CAPABLE, MP_JOIN */
	__u8 pad;
};

/* A connection that nobody has answered yet. */
struct opening {
	__u64 at_ns;
	__u32 isn;
	__u32 bytes;		/* of data in the first segment already (RFC 7413) */
	__u8 by_terminal;
	__u8 repeated;
	__u8 answered;
	__u8 pad[5];
	struct greeting greeting;
};

/* The least that was measured, and what it is lately: 8 times that (RFC 6298's gain of 1/8 by whole numbers). */
struct half {
	__u32 least_us, lately8_us;	/* 0: not known yet */
};

/* A connection. Both directions write here, each what is its own; two processors at once may lose a measure. */
struct flow {
	__u64 seen_ns;		/* the last packet of either direction */
	__u64 data_ns;		/* the last data from the terminal, or its beginning */
	__u64 acked_bytes;	/* since it was first seen */
	__u64 allowed_bytes;	/* in a window; 0: any */
	__u64 allowed_ns;	/* when that was decided */
	__u64 far_ns;		/* when what ends at far_end passed; 0: nothing is awaited */
	__u64 near_ns;		/* when the timestamp near_value passed; 0: likewise */
	__u64 greeted_ns;	/* when the answer to the first segment passed to the terminal; 0: likewise */
	struct half far, near;	/* to the other end and back, to the terminal and back */
	__u32 acked, sent;	/* sequence numbers of what comes from the terminal */
	__u32 far_end;
	__u32 near_value, near_latest;
	__u32 edge;		/* the greatest that was advertised: what was acknowledged and the window */
	__u16 segment_bytes;	/* of data in a full segment */
	__u16 mss_bytes;
	__u8 scale, has_scale;	/* of windows that the other end advertises */
	__u8 mptcp, joined;
	__u8 has_acked, has_sent, has_edge, has_latest;
	__u8 near_busy;		/* the terminal sent while the answer was awaited */
	__u8 finished;		/* FINISHED_* */
	__u8 pad[2];
};

#define FINISHED_TERMINAL 1
#define FINISHED_OTHER 2
#define FINISHED_RESET 4

#endif
