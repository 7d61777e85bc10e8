// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Congestion windows held at most where the controller wants them, by a map of pairs of addresses: for kernels that take no
 * congestion control of ours. Nothing is held at least.
 *
 *   bicast_clamp  new sockets as they are established, and from then on once a round trip (sock_ops, in the root cgroup):
 *                 holds them, and lifts what is held no more
 *   sweep         all sockets of the host, several times a second (iter/tcp): those that are older than the program, and
 *                 that share a cap
 *   let_go        all sockets of the host, once: the agent ends, and with it the program that would lift them (iter/tcp)
 *
 * The clamp is the kernel's own (TCP_BPF_SNDCWND_CLAMP). With it the kernel sets the slow start's threshold to the same
 * value. So it is set only when it differs; and past the lease it is lifted by a little at a time, when a window has come
 * to it, for who lifts it at once begins a slow start from where there is no room for one.
 *
 * The program in the cgroup outlives an agent that was killed, and lifts what that held. The next agent takes both over.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cwnd_bounds.h"
#include "cwnd.h"
#include "kernel_tcp.h"

#define LIFTED (1U << 20)	/* segments: more than a window of 1 GiB has */
#define LIFT_PART 16		/* of a window, in a round trip */
#define PACE_UNKNOWN 0		/* none is so slow */
#define NO_CLAMP 0x7fffffff	/* and what the kernel calls an infinite threshold */

/* The threshold is where a window goes when what was lost is repaired: until then it is not moved up. */
static __always_inline long clamp(void *at, struct tcp_sock *tp, struct holding *holding, __u32 segments)
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

static __always_inline long lift(void *at, struct tcp_sock *tp, struct holding *holding)
{
	__u32 most = tp->snd_cwnd_clamp;

	if (most < LIFTED && holding->clamped && most != holding->clamped) /* somebody else has it by now, and its pace */
		return bpf_sk_storage_delete(&holdings, tp);
	paced(at, holding, NO_PACE);
	if (most >= LIFTED || most != holding->clamped)
		return bpf_sk_storage_delete(&holdings, tp);
	if (tp->snd_cwnd < most)
		return 0;
	return clamp(at, tp, holding, most + most / LIFT_PART + 1);
}

/* `at` is what the program may set options of. */
static __always_inline long keep(void *at, struct tcp_sock *tp, struct holding *holding)
{
	struct bounds bounds;

	if (!bounds_of(tp, holding, &bounds))
		return lift(at, tp, holding);
	if (holding->clamped && tp->snd_cwnd_clamp != holding->clamped)
		holding->pace = PACE_UNKNOWN; /* somebody else had both */
	paced(at, holding, bounds.pace);
	return clamp(at, tp, holding, bounds.most);
}

/* Of a socket that nobody remembers, but that should be held. */
static __always_inline long begin(void *at, struct tcp_sock *tp, const struct settings *now)
{
	struct holding *holding = remember(at, tp, now);

	if (!holding)
		return -12; /* ENOMEM */
	if (tp->snd_cwnd_clamp < LIFTED) /* a killed agent's, that could not be taken away, and its pace too */
		holding->own_pace = NO_PACE;
	count_subflow(holding, now->round);
	return keep(at, tp, holding);
}

SEC("sockops")
int bicast_clamp(struct bpf_sock_ops *ctx)
{
	const struct settings *now = ours();
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
	if (!now || bpf_get_netns_cookie(ctx) != now->netns || !ctx->sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(ctx->sk);
	if (!tp)
		return 1;
	/*
	 * Whether or not there is a cap yet: it is ordered when the connection has been heard of, and before Linux 6.12
	 * nothing but this callback can ask for others. Never taken back: other programs may want it by now, too.
	 */
	if (ctx->op != BPF_SOCK_OPS_RTT_CB && bpf_ktime_get_ns() < now->tended_until_ns)
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	if (holding)
		keep(ctx, tp, holding);
	else if (cap_of(tp, now))
		begin(ctx, tp, now);
	return 1;
}

/* Has the program in the cgroup called for this socket, too; before Linux 6.12 that cannot be done from here. */
static __always_inline long watch(struct tcp_sock *tp)
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
	const struct settings *now = ours();
	struct holding *holding;
	struct tcp_sock *tp;
	struct tally *tally;
	__u32 only = 0;
	long failed;

	tally = bpf_map_lookup_elem(&tallies, &only);
	if (!sk || !now || !tally)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_sending(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		return 0;
	if (!cap_of(tp, now))
		return 0;
	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	/* What nobody would lift past the lease of a killed agent is not held at all. */
	failed = watch(tp);
	if (!failed && holding) {
		count_sending(tp, holding, now->round);
		failed = keep(tp, tp, holding);
	} else if (!failed) {
		failed = begin(tp, tp, now);
	}
	tally->held += !failed;
	if (failed) {
		tally->refused++;
		tally->because = failed;
	}
	return 0;
}

/* It goes on as a new connection does: its congestion control looks for the end of the slow start, which it had done with. */
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
	paced(tp, holding, NO_PACE);
	bpf_sk_storage_delete(&holdings, tp);
	bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &no_clamp, sizeof(no_clamp));
	bpf_probe_read_kernel(own, NAME_BYTES, &tp->inet_conn.icsk_ca_ops->name);
	if (!bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, NAME_BYTES))
		bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, own, NAME_BYTES);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
