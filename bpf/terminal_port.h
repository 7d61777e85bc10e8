/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Map contents that terminal_port.bpf.c and the agent (agent/portxdp) share.
 */
#ifndef TERMINAL_PORT_H
#define TERMINAL_PORT_H

#include <linux/types.h>

#define PORTS_MAX 1024
#define RING_BYTES (1 << 18)	/* of the ring buffer for packets to answer; a power of two */

/* Functions enabled at a port; the key is the ifindex. */
struct port {
	__u32 number;		/* whether to set IPv4 identifications */
	__u32 largest_bytes;	/* MTU behind the port; 0: any. At least 576, which every host must accept (RFC 791) */
	__u32 longest_bytes;	/* MTU of the port's link; longer packets are offload bundles (GRO) */
	__u32 pad;
	__u64 due_ns;		/* bpf_ktime_get_ns(): the rate limit's answers are spent until then */
};

#define QUOTED_BYTES 1232	/* of the packet, quoted in an answer (RFC 4443, 3.2: 1280 bytes at most) */

/* A dropped packet that was too long; the agent answers its sender. */
struct told {
	__u32 device;
	__u32 largest_bytes;
	__u32 bytes;		/* of the frame below: all of it, or the quoted part */
	__u8 frame[14 + QUOTED_BYTES];
	__u8 pad[2];
};

#endif
