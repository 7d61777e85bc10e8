/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Map contents that eliminate.bpf.c and the agent (agent/elimination) share.
 */
#ifndef ELIMINATE_H
#define ELIMINATE_H

#include <linux/types.h>

#define PATHS_MAX 8		/* bits of bucket.seen */
#define WAYS 3			/* packets of a bucket */
#define SKEW_STEPS 32		/* of the histogram; step n counts skews of 2^n to 2^(n+1) ns */

/* A MAC address, padded to 8 bytes. */
struct mac {
	__u8 bytes[6];
	__u8 pad[2];
};

struct settings {
	__u64 window_ns;	/* longest skew between two copies */
	__u64 lease_until_ns;	/* bpf_ktime_get_ns(); after it everything passes */
	__u64 secret[2];	/* random per run, of SipHash */
	__u32 buckets_mask;	/* buckets in use - 1, a power of two: few stay in the CPU's cache */
	__u32 devices[PATHS_MAX];	/* ingress ifindex of each path; 0: none */
	__u32 all_paths;		/* a bit for each configured path */
	struct mac macs[PATHS_MAX];	/* destination MAC address of forwarded packets, by path */
};

struct counters {
	__u64 first;		/* passed: the first copy, so this path won */
	__u64 eliminated;	/* dropped: another path brought it first */
	__u64 late;		/* passed: another path brought it, but before the window */
	__u64 rogue;		/* passed: this path itself brought it within the window */
	__u64 evicted;		/* this path's first copies that were evicted before every path had brought one */
	__u64 unidentified;	/* passed: longer than PACKET_MAX, with IPv4 options, or malformed */
	__u64 not_forwarded;	/* passed: not IP, not to the port's MAC address, or the hop limit is nearly used up */
	__u64 skew[SKEW_STEPS];	/* of eliminated and late copies: delay after the first */
};

#endif
