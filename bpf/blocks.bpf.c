// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Limits what sockets of a cgroup take in before sending it: a socket with a block of unsent data takes no more
 * (TCP_NOTSENT_LOWAT). The size of send buffers stays as it is.
 *
 *   new sockets       sock_ops at the cgroup, when established      ─┐
 *   limited sockets   the same program, at each RTT measurement     ─┼─ apply(): set the order, or restore the sysctl
 *   older sockets     iter/tcp, whenever the order changes          ─┘
 *
 * Exempt: sockets whose program set the option itself, MPTCP subflows (their unsent data waits in the connection, which
 * BPF cannot reach), the loopback, other network namespaces.
 *
 * The programs at the cgroup outlive a killed agent. After the lease they restore each socket once and then do nothing.
 */
#include <linux/bpf.h>
#include <linux/tcp.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "blocks.h"

#define SOL_TCP 6
#define LOOPBACK 1	/* ifindex of the loopback, in every network namespace */
#define DEPTH_MAX 32	/* cgroup levels below ours to search */
#ifndef TCP_BPF_SOCK_OPS_CB_FLAGS
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#endif

enum { ESTABLISHED = 1, CLOSE_WAIT = 8 };	/* states in which a socket sends */

/* Only the fields read here; the loader relocates them for the running kernel (CO-RE). */
#define KERNEL_STRUCT __attribute__((preserve_access_index))

struct kernfs_node {
	__u64 id;
} KERNEL_STRUCT;

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KERNEL_STRUCT;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} KERNEL_STRUCT;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} KERNEL_STRUCT;

struct net_device {
	int ifindex;
} KERNEL_STRUCT;

struct dst_entry {
	struct net_device *dev;
} KERNEL_STRUCT;

struct sock_common {
	unsigned char skc_state;
} KERNEL_STRUCT;

struct sock {
	struct sock_cgroup_data sk_cgrp_data;
	struct dst_entry *sk_dst_cache;
} KERNEL_STRUCT;

struct tcp_sock {
	unsigned char is_mptcp : 1;
} KERNEL_STRUCT;

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

/* The value that we set at a socket; 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} held SEC(".maps");

static __always_inline struct order *current_order(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&order, &only);
}

static __always_inline bool is_exempt(const struct tcp_sock *tcp)
{
	struct dst_entry *route = ((const struct sock *)tcp)->sk_dst_cache;

	if (bpf_core_field_exists(tcp->is_mptcp) && BPF_CORE_READ_BITFIELD(tcp, is_mptcp))
		return true;
	return route && route->dev && route->dev->ifindex == LOOPBACK;
}

static __always_inline __u32 limit_bytes(const struct order *ours)
{
	return bpf_ktime_get_ns() < ours->lease_until_ns ? ours->block_bytes : 0;
}

/* `at` is the argument for the socket option helpers. Returns whether a limit is set. */
static __always_inline bool apply(void *at, void *sk, const struct order *ours)
{
	__u32 wanted = limit_bytes(ours), now = 0;
	__u32 *set = bpf_sk_storage_get(&held, sk, NULL, wanted ? BPF_SK_STORAGE_GET_F_CREATE : 0);

	if (!set)
		return false;
	if (*set == wanted)
		return wanted;
	if (bpf_getsockopt(at, SOL_TCP, TCP_NOTSENT_LOWAT, &now, sizeof(now)) || now != *set)
		return false;	/* its program has set another value */
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
	ours = current_order();
	sk = ctx->sk;
	if (!ours || !sk || bpf_get_netns_cookie(ctx) != ours->netns_cookie)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_RTT_CB) {
		if (bpf_sk_storage_get(&held, sk, NULL, 0))
			apply(ctx, sk, ours);
		return 1;
	}
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || is_exempt(tcp))
		return 1;
	/* The flag is never cleared: another program may need it, too. */
	if (apply(ctx, sk, ours))
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	return 1;
}

static __always_inline bool in_cgroup(const struct sock *sk, __u64 ours)
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

/* Enables the RTT callback for this socket. Before Linux 6.12 an iterator cannot set the flags. */
static __always_inline bool enable_rtt_callback(struct tcp_sock *tcp)
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
	const struct order *ours = current_order();
	struct tcp_sock *tcp;

	if (!common || !ours || (common->skc_state != ESTABLISHED && common->skc_state != CLOSE_WAIT))
		return 0;
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp || is_exempt(tcp) || !in_cgroup((struct sock *)tcp, ours->cgroup))
		return 0;
	/* Without the callback nothing would lift the limit after the lease of a killed agent. */
	if (limit_bytes(ours) && !enable_rtt_callback(tcp))
		return 0;
	apply(tcp, tcp, ours);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
