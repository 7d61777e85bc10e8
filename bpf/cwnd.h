/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Map contents that cwnd_cubic.bpf.c, cwnd_clamp.bpf.c and the agent (agent/caps) share.
 */
#ifndef CWND_H
#define CWND_H

#include <linux/types.h>

#define CAPS_MAX 4096		/* per order; during a replacement the map holds both orders */
#define NAME_BYTES 16		/* of a congestion control's name, with its NUL */
#define NO_PACE (~0U)

/* IPv6 addresses in network byte order; IPv4 is mapped. */
struct pair {
	__u32 source[4], destination[4];
};

/* Applies to each connection of a pair. */
struct cap {
	__u32 most, least;	/* segments in flight */
	__u32 pace;		/* bytes a second, or NO_PACE */
};

struct settings {
	__u64 lease_until_ns;	/* bpf_ktime_get_ns(); after it there are no caps */
	__u64 tended_until_ns;	/* likewise; after it the agent counts as dead */
	__u64 netns;		/* cookie of the host's namespace */
	__u32 round;		/* of sweeps */
	char name[NAME_BYTES];	/* of our congestion control */
	char other[NAME_BYTES];	/* for sockets whose previous one is unknown */
	__u32 pad;
};

/* Result of a sweep. */
struct tally {
	__u32 held;		/* sockets under a cap */
	__u32 refused;		/* sockets that have a cap but cannot be held */
	__s32 last_error;		/* -errno of the last refused socket */
};

#endif
