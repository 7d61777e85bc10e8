/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where copies begin, each packet is given an identity before it is copied.
 *
 * An atomic datagram (DF set, no fragment) has an identification without a meaning, which whoever forwards it may set
 * (RFC 6864, 4.1): Linux leaves it 0, and two equal datagrams of an application (a DNS question asked again, a keepalive)
 * could not be told from two copies of one. So they are numbered, all from one counter; 0 is left out, for it is no number.
 * Anything else stays as it is, what IPsec's AH has signed with it (RFC 4302, 3.3.3.1.1.1).
 */
#ifndef STAMP_H
#define STAMP_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"

#define DONT_FRAGMENT 0x4000
#define FRAGMENT 0x3fff		/* more of them, or not the first */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);	/* or the one after the last would be the last again */
} number SEC(".maps");

static __always_inline void stamp(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *frame = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(frame + 1);
	__u32 only = 0;
	__u64 *next, drawn;
	__be16 id;

	if ((void *)(ip + 1) > end || frame->h_proto != bpf_htons(ETH_P_IP))
		return;
	if (ip->version != 4 || ip->ihl < 5 || ip->protocol == IPPROTO_AH)
		return;
	if (!(ip->frag_off & bpf_htons(DONT_FRAGMENT)) || ip->frag_off & bpf_htons(FRAGMENT))
		return;
	next = bpf_map_lookup_elem(&number, &only);
	if (!next)
		return;
	drawn = __sync_fetch_and_add(next, 1);
	id = bpf_htons(drawn % 0xffff + 1);
	ip->check = mended(ip->check, ip->id, id);
	ip->id = id;
}

#endif
