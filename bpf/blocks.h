/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Map contents that blocks.bpf.c and the agent (agent/blocks) share.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <linux/types.h>

struct order {
	__u64 lease_until_ns;	/* CLOCK_MONOTONIC (bpf_ktime_get_ns); after it the order is void */
	__u64 cgroup;		/* id; its processes and those of its descendants */
	__u64 netns_cookie;	/* of the agent's network namespace; sockets elsewhere are exempt */
	__u32 block_bytes;	/* 0: the sysctl's value */
	__u32 pad;
};

#endif
