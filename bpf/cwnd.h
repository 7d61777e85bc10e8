/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs that hold a terminal's own windows (cwnd_cubic.bpf.c, cwnd_clamp.bpf.c) and the agent (agent/caps, in Go) share:
 * the maps' contents.
 */
#ifndef CWND_H
#define CWND_H

#include <linux/types.h>

#define CAPS_MAX 4096		/* of an order; while another takes its place, there are the caps of both */
#define NAME_BYTES 16		/* of a congestion control, with its NUL */
#define NO_PACE (~0U)

/* Addresses as IPv6 has them, in the network's order; those of IPv4 are mapped. */
struct pair {
	__u32 source[4], destination[4];
};

/* Of each connection of a pair. */
struct cap {
	__u32 most, least;	/* segments on their way */
	__u32 pace;		/* bytes a second, or NO_PACE */
};

struct settings {
	__u64 lease_until_ns;	/* of bpf_ktime_get_ns(); after that there are no caps */
	__u64 tended_until_ns;	/* likewise; after that the agent is dead */
	__u64 netns;		/* the cookie of the host's namespace */
	__u32 round;		/* of sweeps */
	char name[NAME_BYTES];	/* of our congestion control */
	char other[NAME_BYTES];	/* for sockets of which nobody remembers what they had */
	__u32 pad;
};

/* What a sweep has found. */
struct tally {
	__u32 held;		/* sockets under a cap */
	__u32 refused;		/* sockets that should be, and cannot */
	__s32 because;		/* -errno of the last one of these */
};

#endif
