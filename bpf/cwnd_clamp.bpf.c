// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Upper bounds for congestion windows, from a map of address pairs, for kernels that do not accept our congestion
 * control. There is no lower bound.
 *
 *   bicast_clamp  sock_ops in the root cgroup, at establishment and then once per round trip: clamps and releases
 *   sweep         iter/tcp over all sockets, several times a second: sockets older than the program, and shared caps
 *   let_go        iter/tcp over all sockets, once, when the agent ends and detaches the program that releases them
 *
 * TCP_BPF_SNDCWND_CLAMP also sets ssthresh to the clamp. So it is set only when it differs. After the lease it rises in
 * small steps, each when the window has reached the clamp: a single step would start slow start without room for it.
 *
 * The program in the cgroup outlives a killed agent and releases its sockets. The next agent takes both over.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cwnd_bounds.h"
#include "cwnd.h"
#include "kernel_tcp.h"

#define UNCLAMPED_SEGMENTS (1U << 20)	/* segments: more than a window of 1 GiB */
#define LIFT_DIVISOR 16		/* of a window, per round trip */
#define PACE_UNKNOWN 0		/* no real rate is 0 */
#define NO_CLAMP 0x7fffffff	/* the kernel's TCP_INFINITE_SSTHRESH */

/* After loss recovery the window returns to ssthresh: until then the clamp must not raise it. */
static __always_inline long set_clamp(void *at, struct tcp_sock *tp, struct holding *holding, __u32 segments)
{
	long failed;

	if (tp->snd_cwnd_clamp != segments) {
		if (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) >= CA_CWR && tp->snd_ssthresh < segments)
			return 0;
		failed = bpf_setsockopt(at, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &segments, sizeof(segments));
		if (failed)
			return failed;
	}
	holding->clamped = segments;
	return 0;
}

static __always_inline long raise_clamp(void *at, struct tcp_sock *tp, struct holding *holding)
{
	__u32 most = tp->snd_cwnd_clamp;

	if (most < UNCLAMPED_SEGMENTS && holding->clamped && most != holding->clamped) /* another program set the clamp, and owns the pace */
		return bpf_sk_storage_delete(&holdings, tp);
	set_pace(at, holding, NO_PACE);
	if (most >= UNCLAMPED_SEGMENTS || most != holding->clamped)
		return bpf_sk_storage_delete(&holdings, tp);
	if (tp->snd_cwnd < most)
		return 0;
	return set_clamp(at, tp, holding, most + most / LIFT_DIVISOR + 1);
}

/* `at` is the argument for the socket option helpers. */
static __always_inline long apply_cap(void *at, struct tcp_sock *tp, struct holding *holding)
{
	struct bounds bounds;

	if (!bounds_of(tp, holding, &bounds))
		return raise_clamp(at, tp, holding);
	if (holding->clamped && tp->snd_cwnd_clamp != holding->clamped)
		holding->pace = PACE_UNKNOWN; /* another program set the clamp, and perhaps the pace */
	set_pace(at, holding, bounds.pace);
	return set_clamp(at, tp, holding, bounds.most);
}

/* For a socket that has a cap but no state yet. */
static __always_inline long start_cap(void *at, struct tcp_sock *tp, const struct settings *config)
{
	struct holding *holding = create_holding(at, tp, config);

	if (!holding)
		return -12; /* ENOMEM */
	if (tp->snd_cwnd_clamp < UNCLAMPED_SEGMENTS) /* left by a killed agent, with its pacing rate */
		holding->own_pace = NO_PACE;
	count_subflow(holding, config->round);
	return apply_cap(at, tp, holding);
}

SEC("sockops")
int bicast_clamp(struct bpf_sock_ops *ctx)
{
	const struct settings *config = load_settings();
	struct holding *holding;
	struct tcp_sock *tp;

	switch (ctx->op) {
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		break;
	default:
		return 1;
	}
	if (!config || bpf_get_netns_cookie(ctx) != config->netns || !ctx->sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(ctx->sk);
	if (!tp)
		return 1;
	/*
	 * Set even without a cap: a cap comes after the connection's first report, and before Linux 6.12 only this
	 * callback can request others. The flag is never cleared: another program may need it, too.
	 */
	if (ctx->op != BPF_SOCK_OPS_RTT_CB && bpf_ktime_get_ns() < config->tended_until_ns)
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	if (holding)
		apply_cap(ctx, tp, holding);
	else if (cap_of(tp, config))
		start_cap(ctx, tp, config);
	return 1;
}

/* Enables the RTT callback for this socket. Before Linux 6.12 an iterator cannot set the flags. */
static __always_inline long enable_rtt_callback(struct tcp_sock *tp)
{
	int flags = tp->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG;

	if (flags == tp->bpf_sock_ops_cb_flags)
		return 0;
	if (bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return -95; /* EOPNOTSUPP */
	return 0;
}

SEC("iter/tcp")
int sweep(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	const struct settings *config = load_settings();
	struct holding *holding;
	struct tcp_sock *tp;
	struct tally *tally;
	__u32 only = 0;
	long failed;

	tally = bpf_map_lookup_elem(&tallies, &only);
	if (!sk || !config || !tally)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_sending(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		return 0;
	if (!cap_of(tp, config))
		return 0;
	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	/* Without the callback nothing would lift the clamp after the lease of a killed agent. */
	failed = enable_rtt_callback(tp);
	if (!failed && holding) {
		count_sending(tp, holding, config->round);
		failed = apply_cap(tp, tp, holding);
	} else if (!failed) {
		failed = start_cap(tp, tp, config);
	}
	tally->held += !failed;
	if (failed) {
		tally->refused++;
		tally->last_error = failed;
	}
	return 0;
}

/* Reinstalling the congestion control resets its state, so the socket goes on as a new connection does. */
SEC("iter/tcp")
int let_go(struct bpf_iter__tcp *ctx)
{
	char own[NAME_BYTES] = {}, reno[NAME_BYTES] = "reno";
	struct sock_common *sk = ctx->sk_common;
	int no_clamp = NO_CLAMP;
	struct holding *holding;
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_sending(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		return 0;
	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	if (!holding)
		return 0;
	set_pace(tp, holding, NO_PACE);
	bpf_sk_storage_delete(&holdings, tp);
	bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &no_clamp, sizeof(no_clamp));
	bpf_probe_read_kernel(own, NAME_BYTES, &tp->inet_conn.icsk_ca_ops->name);
	if (!bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, NAME_BYTES))
		bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, own, NAME_BYTES);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
