// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A congestion control (struct_ops) that keeps the kernel's cubic between two bounds, from a map of address pairs.
 *
 *   take_new  sock_ops in the root cgroup, at establishment: applies it to sockets whose pair has a cap
 *   sweep     iter/tcp over all sockets, several times a second: applies it to sockets that are older than the cap or
 *             have lost it (a joined MPTCP subflow inherits the connection's); restores sockets whose cap has ended
 *
 * After the lease the congestion control behaves as plain cubic: sockets keep it when the agent has been killed. A
 * released window goes on from its current size, without slow start.
 *
 * The subflows of an MPTCP connection share one cap: each gets its pair's cap divided by the number of capped subflows
 * that sent recently.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cwnd_bounds.h"
#include "cwnd_cubic.h"
#include "cwnd.h"
#include "kernel_tcp.h"

static __always_inline bool same_name(const char name[NAME_BYTES], const char other[NAME_BYTES])
{
	for (int i = 0; i < NAME_BYTES; i++) {
		if (name[i] != other[i])
			return false;
		if (!name[i])
			break;
	}
	return true;
}

static __always_inline void read_cc_name(const struct tcp_sock *tp, char name[NAME_BYTES])
{
	bpf_probe_read_kernel(name, NAME_BYTES, &tp->inet_conn.icsk_ca_ops->name);
}

/* Gives a socket our congestion control, or returns -errno. `at` is the argument for the socket option helpers. */
static __always_inline long apply_cc(void *at, struct tcp_sock *tp, const struct settings *config)
{
	char name[NAME_BYTES] = {}, wanted[NAME_BYTES];
	struct holding *holding;
	long failed;

	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	if (!holding)
		holding = create_holding(at, tp, config);
	if (!holding)
		return -12; /* ENOMEM */
	read_cc_name(tp, name);
	if (same_name(name, config->name)) { /* left by a previous agent, with its pacing rate */
		__builtin_memcpy(holding->own, config->other, NAME_BYTES);
		holding->own_pace = NO_PACE;
	} else {
		__builtin_memcpy(holding->own, name, NAME_BYTES);
	}
	count_subflow(holding, config->round);
	__builtin_memcpy(wanted, config->name, NAME_BYTES);
	failed = bpf_setsockopt(at, SOL_TCP, TCP_CONGESTION, wanted, NAME_BYTES);
	if (failed)
		bpf_sk_storage_delete(&holdings, tp);
	return failed;
}

SEC("sockops")
int take_new(struct bpf_sock_ops *ctx)
{
	const struct settings *config = load_settings();
	struct tcp_sock *tp;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (!config || bpf_get_netns_cookie(ctx) != config->netns || !ctx->sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(ctx->sk);
	if (tp && cap_of(tp, config))
		apply_cc(ctx, tp, config);
	return 1;
}

static __always_inline long set_cc(struct tcp_sock *tp, const char from[NAME_BYTES])
{
	char name[NAME_BYTES];

	__builtin_memcpy(name, from, NAME_BYTES);
	return bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, NAME_BYTES);
}

static __always_inline long keep_capped(struct tcp_sock *tp, struct holding *holding,
					 const struct settings *config, bool is_ours)
{
	if (!holding || !is_ours)
		return apply_cc(tp, tp, config);
	count_sending(tp, holding, config->round);
	return 0;
}

/* Restores the previous congestion control. */
static __always_inline long restore_cc(struct tcp_sock *tp, struct holding *holding,
					 const struct settings *config, bool is_ours)
{
	__u32 no_pace = NO_PACE;
	long failed = 0;

	if (!holding) {
		if (!is_ours)
			return 0;
		bpf_setsockopt(tp, SOL_SOCKET, SO_MAX_PACING_RATE, &no_pace, sizeof(no_pace));
		return set_cc(tp, config->other);
	}
	if (is_ours) {
		failed = set_cc(tp, holding->own);
		if (failed) /* its module was unloaded, or it is not allowed any more */
			failed = set_cc(tp, config->other);
		if (failed)
			return failed;
	}
	set_pace(tp, holding, NO_PACE);
	return bpf_sk_storage_delete(&holdings, tp);
}

SEC("iter/tcp")
int sweep(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	const struct settings *config = load_settings();
	char name[NAME_BYTES] = {};
	struct holding *holding;
	struct tcp_sock *tp;
	struct tally *tally;
	__u32 only = 0;
	bool is_ours;
	long failed;

	tally = bpf_map_lookup_elem(&tallies, &only);
	if (!sk || !config || !tally)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_sending(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		return 0;
	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	read_cc_name(tp, name);
	is_ours = same_name(name, config->name);
	if (cap_of(tp, config)) {
		failed = keep_capped(tp, holding, config, is_ours);
		tally->held += !failed;
	} else {
		failed = restore_cc(tp, holding, config, is_ours);
	}
	if (failed) {
		tally->refused++;
		tally->last_error = failed;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
