/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the eliminator and the agent (agent/elimination, in Go) share: the maps' contents.
 */
#ifndef ELIMINATE_H
#define ELIMINATE_H

#include <linux/types.h>

#define PATHS_MAX 8		/* bits of entry.seen */
#define WAYS 4			/* entries of a bucket */
#define SKEW_STEPS 32		/* of the histogram: step n counts skews of 2^n to 2^(n+1) ns */

/* A MAC address, with what makes it a word. */
struct mac {
	__u8 bytes[6];
	__u8 pad[2];
};

struct settings {
	__u64 window_ns;	/* a copy comes within so long of the first */
	__u64 lease_until_ns;	/* of bpf_ktime_get_ns(); after that everything passes */
	__u64 secret[2];	/* of this run, so that nobody can make two packets look the same */
	__u32 buckets_mask;	/* buckets in use - 1, a power of two: few are near the processor */
	__u32 devices[PATHS_MAX];	/* by which each path's packets come in; 0: none */
	__u32 everyone;		/* a bit for each path that there is */
	struct mac macs[PATHS_MAX];	/* to which what a site forwards is sent, by path */
};

/* A packet that was let through, by the mark of its identity. */
struct entry {
	__u64 mark[2];
	__u64 first_ns;		/* 0: free */
	__u32 path;		/* by which it came first */
	__u32 seen;		/* a bit for each path that has brought it */
};

struct counters {
	__u64 first;		/* passed: nobody has brought it before, so this path won */
	__u64 eliminated;	/* dropped: another path has brought it */
	__u64 late;		/* passed: another path has brought it, longer ago than the window */
	__u64 rogue;		/* passed: this path itself has brought it within the window */
	__u64 evicted;		/* of those that this path won, forgotten for want of room before all had brought them */
	__u64 unidentified;	/* passed: longer than PACKET_MAX, with IPv4 options, or what no receiver takes */
	__u64 not_forwarded;	/* passed: no IP, not for the port's MAC address, or near the end of its hop limit */
	__u64 skew[SKEW_STEPS];	/* of what was eliminated or late: how long after the first */
};

#endif
