/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the program at the ports of terminals and the agent (agent/portxdp, in Go) share: the maps' contents.
 */
#ifndef TERMINAL_PORT_H
#define TERMINAL_PORT_H

#include <linux/types.h>

#define PORTS_MAX 1024
#define TOLD_BYTES (1 << 18)	/* of what waits to be answered; a power of two */

/* What is wanted at a port, by the device's index. */
struct port {
	__u32 number;		/* whether packets are numbered */
	__u32 largest_bytes;	/* of an IP packet; 0: any. Not less than 576, which every host must take (RFC 791) */
	__u32 longest_bytes;	/* that the port's wire carries: what is longer is a bundle of packets that an offload made */
	__u32 pad;
	__u64 due_ns;		/* of bpf_ktime_get_ns(): until when answers have been spent */
};

#define QUOTED_BYTES 1232	/* of the packet, as many as go into an answer (RFC 4443, 3.2: 1280 bytes) */

/* A packet that was too long, and was dropped: its sender is to be told. */
struct told {
	__u32 device;
	__u32 largest_bytes;
	__u32 bytes;		/* of the frame below: to its end, or so much as is quoted */
	__u8 frame[14 + QUOTED_BYTES];
	__u8 pad[2];
};

#endif
