// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Linux's own cubic, held between two bounds: a congestion control (struct_ops) that asks the kernel's cubic for all that
 * it does, and then keeps the window where the controller wants it, by a map of pairs of addresses.
 *
 *   take_new  as a connection is established: gives it to those whose pair has a cap (sock_ops, in the root cgroup)
 *   sweep     over all sockets of the host, several times a second (iter/tcp): gives it to those that are older than the
 *             cap, or have lost it (MPTCP gives a joined subflow what its connection has); gives those whose cap has
 *             gone back what they had
 *
 * Past the lease the congestion control is cubic and nothing else, by itself: sockets keep it when the agent has been
 * killed. What was held goes on from where it is, without a slow start.
 *
 * Subflows of one MPTCP connection share one cap: each has its pair's, divided by the number of those that have one and
 * lately sent something.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cwnd_bounds.h"
#include "cwnd_cubic.h"
#include "cwnd.h"
#include "kernel_tcp.h"

static __always_inline bool is_named(const char name[NAME_BYTES], const char other[NAME_BYTES])
{
	for (int i = 0; i < NAME_BYTES; i++) {
		if (name[i] != other[i])
			return false;
		if (!name[i])
			break;
	}
	return true;
}

static __always_inline void has(const struct tcp_sock *tp, char name[NAME_BYTES])
{
	bpf_probe_read_kernel(name, NAME_BYTES, &tp->inet_conn.icsk_ca_ops->name);
}

/* Gives a socket our congestion control; -errno: it has not got it. `at` is what the program may set options of. */
static __always_inline long take(void *at, struct tcp_sock *tp, const struct settings *now)
{
	char name[NAME_BYTES] = {}, wanted[NAME_BYTES];
	struct holding *holding;
	long failed;

	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	if (!holding)
		holding = remember(at, tp, now);
	if (!holding)
		return -12; /* ENOMEM */
	has(tp, name);
	if (is_named(name, now->name)) { /* an agent's that was here before us, and its pace too */
		__builtin_memcpy(holding->own, now->other, NAME_BYTES);
		holding->own_pace = NO_PACE;
	} else {
		__builtin_memcpy(holding->own, name, NAME_BYTES);
	}
	count_subflow(holding, now->round);
	__builtin_memcpy(wanted, now->name, NAME_BYTES);
	failed = bpf_setsockopt(at, SOL_TCP, TCP_CONGESTION, wanted, NAME_BYTES);
	if (failed)
		bpf_sk_storage_delete(&holdings, tp);
	return failed;
}

SEC("sockops")
int take_new(struct bpf_sock_ops *ctx)
{
	const struct settings *now = ours();
	struct tcp_sock *tp;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (!now || bpf_get_netns_cookie(ctx) != now->netns || !ctx->sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(ctx->sk);
	if (tp && cap_of(tp, now))
		take(ctx, tp, now);
	return 1;
}

static __always_inline long give(struct tcp_sock *tp, const char from[NAME_BYTES])
{
	char name[NAME_BYTES];

	__builtin_memcpy(name, from, NAME_BYTES);
	return bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, NAME_BYTES);
}

static __always_inline long keep(struct tcp_sock *tp, struct holding *holding, const struct settings *now, bool is_ours)
{
	if (!holding || !is_ours)
		return take(tp, tp, now);
	count_sending(tp, holding, now->round);
	return 0;
}

/* Gives a socket back what it had. */
static __always_inline long let(struct tcp_sock *tp, struct holding *holding, const struct settings *now, bool is_ours)
{
	__u32 no_pace = NO_PACE;
	long failed = 0;

	if (!holding) {
		if (!is_ours)
			return 0;
		bpf_setsockopt(tp, SOL_SOCKET, SO_MAX_PACING_RATE, &no_pace, sizeof(no_pace));
		return give(tp, now->other);
	}
	if (is_ours) {
		failed = give(tp, holding->own);
		if (failed) /* it has gone, or is not allowed any more */
			failed = give(tp, now->other);
		if (failed)
			return failed;
	}
	paced(tp, holding, NO_PACE);
	return bpf_sk_storage_delete(&holdings, tp);
}

SEC("iter/tcp")
int sweep(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	const struct settings *now = ours();
	char name[NAME_BYTES] = {};
	struct holding *holding;
	struct tcp_sock *tp;
	struct tally *tally;
	__u32 only = 0;
	bool is_ours;
	long failed;

	tally = bpf_map_lookup_elem(&tallies, &only);
	if (!sk || !now || !tally)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_sending(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		return 0;
	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	has(tp, name);
	is_ours = is_named(name, now->name);
	if (cap_of(tp, now)) {
		failed = keep(tp, holding, now, is_ours);
		tally->held += !failed;
	} else {
		failed = let(tp, holding, now, is_ours);
	}
	if (failed) {
		tally->refused++;
		tally->because = failed;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
