/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs that keep blocks small and the agent (agent/blocks, in Go) share: the maps' contents.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <linux/types.h>

struct order {
	__u64 lease_until_ns;	/* of bpf_ktime_get_ns(); after that nothing is ordered */
	__u64 cgroup;		/* id: of its programs, and of those in the cgroups below it */
	__u64 netns_cookie;	/* of the agent's network namespace: sockets of others are left alone */
	__u32 block_bytes;	/* 0: as the sysctl has it */
	__u32 pad;
};

#endif
