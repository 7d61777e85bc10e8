// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whatever the programs of a cgroup write at once, their sockets take in blocks: a socket that has as much unsent as a
 * block takes no more (TCP_NOTSENT_LOWAT). The size of send buffers is nobody's business here.
 *
 *   new sockets    sock_ops at the cgroup, when they are established  ─┐
 *   held ones      the same, whenever their RTT is measured           ─┼─ keep(): what is ordered, or the sysctl's again
 *   older ones     iter/tcp, whenever the order changes               ─┘
 *
 * Left alone: a socket whose program has set a mark of its own, subflows of MPTCP (what they have not sent waits in the
 * connection, which BPF cannot reach), the loopback, other network namespaces.
 *
 * The programs at the cgroup outlive an agent that is killed: past the lease they give the sockets back what they had,
 * and from then on do nothing.
 */
#include <linux/bpf.h>
#include <linux/tcp.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "blocks.h"

#define SOL_TCP 6
#define LOOPBACK 1	/* the number of the loopback's device, in every network namespace */
#define DEPTH_MAX 32	/* of cgroups below ours that are looked at */
#ifndef TCP_BPF_SOCK_OPS_CB_FLAGS
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#endif

enum { ESTABLISHED = 1, CLOSE_WAIT = 8 };	/* sockets that send */

/* As much of the kernel's own as is read; the loader finds where it is in the kernel at hand. */
#define OF_THE_KERNEL __attribute__((preserve_access_index))

struct kernfs_node {
	__u64 id;
} OF_THE_KERNEL;

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} OF_THE_KERNEL;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} OF_THE_KERNEL;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} OF_THE_KERNEL;

struct net_device {
	int ifindex;
} OF_THE_KERNEL;

struct dst_entry {
	struct net_device *dev;
} OF_THE_KERNEL;

struct sock_common {
	unsigned char skc_state;
} OF_THE_KERNEL;

struct sock {
	struct sock_cgroup_data sk_cgrp_data;
	struct dst_entry *sk_dst_cache;
} OF_THE_KERNEL;

struct tcp_sock {
	unsigned char is_mptcp : 1;
} OF_THE_KERNEL;

struct bpf_iter__tcp {
	void *meta;
	struct sock_common *sk_common;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct order);
} order SEC(".maps");

/* What we have set at a socket; 0: nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} held SEC(".maps");

static __always_inline struct order *ordered(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&order, &only);
}

/* Whether it is none of our business, whatever is ordered. */
static __always_inline bool foreign(const struct tcp_sock *tcp)
{
	struct dst_entry *route = ((const struct sock *)tcp)->sk_dst_cache;

	if (bpf_core_field_exists(tcp->is_mptcp) && BPF_CORE_READ_BITFIELD(tcp, is_mptcp))
		return true;
	return route && route->dev && route->dev->ifindex == LOOPBACK;
}

static __always_inline __u32 block(const struct order *ours)
{
	return bpf_ktime_get_ns() < ours->lease_until_ns ? ours->block_bytes : 0;
}

/* `at` is what the kernel's helpers for socket options take here. Returns whether something is set. */
static __always_inline bool keep(void *at, void *sk, const struct order *ours)
{
	__u32 wanted = block(ours), now = 0;
	__u32 *set = bpf_sk_storage_get(&held, sk, NULL, wanted ? BPF_SK_STORAGE_GET_F_CREATE : 0);

	if (!set)
		return false;
	if (*set == wanted)
		return wanted;
	if (bpf_getsockopt(at, SOL_TCP, TCP_NOTSENT_LOWAT, &now, sizeof(now)) || now != *set)
		return false;	/* its program knows better */
	if (bpf_setsockopt(at, SOL_TCP, TCP_NOTSENT_LOWAT, &wanted, sizeof(wanted)))
		return false;
	*set = wanted;
	return wanted;
}

SEC("sockops")
int bicast_blocks(struct bpf_sock_ops *ctx)
{
	const struct order *ours;
	struct bpf_sock *sk;
	struct tcp_sock *tcp;

	switch (ctx->op) {
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		break;
	default:
		return 1;
	}
	ours = ordered();
	sk = ctx->sk;
	if (!ours || !sk || bpf_get_netns_cookie(ctx) != ours->netns_cookie)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_RTT_CB) {
		if (bpf_sk_storage_get(&held, sk, NULL, 0))
			keep(ctx, sk, ours);
		return 1;
	}
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || foreign(tcp))
		return 1;
	/* Never taken back: somebody else may want it by now, too. */
	if (keep(ctx, sk, ours))
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	return 1;
}

static __always_inline bool inside(const struct sock *sk, __u64 ours)
{
	struct cgroup *each = sk->sk_cgrp_data.cgroup;
	struct cgroup_subsys_state *above;

	for (int depth = 0; depth < DEPTH_MAX && each; depth++) {
		if (each->kn->id == ours)
			return true;
		above = each->self.parent;
		if (!above)
			return false;
		each = above->cgroup;
	}
	return false;
}

/* Has the program at the cgroup called for this socket, too; before Linux 6.12 that cannot be done from here. */
static __always_inline bool watch(struct tcp_sock *tcp)
{
	int flags = 0;

	if (bpf_getsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return false;
	flags |= BPF_SOCK_OPS_RTT_CB_FLAG;
	return !bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
}

SEC("iter/tcp")
int sweep(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct order *ours = ordered();
	struct tcp_sock *tcp;

	if (!common || !ours || (common->skc_state != ESTABLISHED && common->skc_state != CLOSE_WAIT))
		return 0;
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp || foreign(tcp) || !inside((struct sock *)tcp, ours->cgroup))
		return 0;
	/* What nobody would lift past the lease of a killed agent is not held at all. */
	if (block(ours) && !watch(tcp))
		return 0;
	keep(tcp, tcp, ours);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
