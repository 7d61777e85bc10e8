/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A congestion control that calls the kernel's cubic for everything and then keeps the window within its bounds.
 *
 * During loss recovery the bounds apply to ssthresh alone: there the kernel sets the window from the data in flight
 * (RFC 6937). On a dead path (CA_Loss) the window is cubic's.
 */
#ifndef CWND_CUBIC_H
#define CWND_CUBIC_H

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cwnd_bounds.h"
#include "kernel_tcp.h"

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* A threshold above the window would start slow start, for which the path has no room. */
static __always_inline void end_slow_start(struct tcp_sock *tp, struct holding *holding)
{
	holding->bounded = false;
	if (tp->snd_ssthresh > tp->snd_cwnd)
		tp->snd_ssthresh = tp->snd_cwnd > 2 ? tp->snd_cwnd : 2;
}

/* Returns NULL if there are no bounds; a socket that had some is released. */
static __always_inline struct holding *bounds_or_release(struct sock *sk, struct bounds *bounds)
{
	struct holding *holding = holding_of(sk);

	if (bounds_of((struct tcp_sock *)sk, holding, bounds))
		return holding;
	if (holding && holding->bounded) {
		end_slow_start((struct tcp_sock *)sk, holding);
		cubictcp_init(sk); /* the old epoch would grow the window at once to what the cap withheld */
		set_pace(sk, holding, NO_PACE);
	}
	return NULL;
}

static __always_inline void keep_within(struct sock *sk, struct holding *holding, const struct bounds *bounds)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	holding->bounded = true;
	if (tp->snd_cwnd > bounds->most)
		tp->snd_cwnd = bounds->most;
	else if (tp->snd_cwnd < bounds->least && BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) < CA_CWR)
		tp->snd_cwnd = bounds->least;
	set_pace(sk, holding, bounds->pace);
}

static __always_inline void apply_bounds(struct sock *sk)
{
	struct bounds bounds;
	struct holding *holding = bounds_or_release(sk, &bounds);

	if (holding)
		keep_within(sk, holding, &bounds);
}

static __always_inline __u32 clamp_to_bounds(struct sock *sk, __u32 segments)
{
	struct bounds bounds;

	if (!bounds_of((struct tcp_sock *)sk, holding_of(sk), &bounds))
		return segments;
	if (segments < bounds.least)
		return bounds.least;
	return segments > bounds.most ? bounds.most : segments;
}

SEC("struct_ops/tcp_congestion_ops:init")
int init(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	cubictcp_init(sk);
	apply_bounds(sk);
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:ssthresh")
__u32 ssthresh(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 segments = clamp_to_bounds(sk, cubictcp_recalc_ssthresh(sk));

	return segments > 2 ? segments : 2;
}

SEC("struct_ops/tcp_congestion_ops:cong_avoid")
int cong_avoid(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct bounds bounds;
	struct holding *holding = bounds_or_release(sk, &bounds);

	/* Readers without the socket's lock, as TCP_INFO, must not see a window above the bound even briefly. */
	if (!holding || ((struct tcp_sock *)sk)->snd_cwnd < bounds.most)
		cubictcp_cong_avoid(sk, ctx[1], ctx[2]);
	if (holding)
		keep_within(sk, holding, &bounds);
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:set_state")
int set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	cubictcp_state(sk, ctx[1]);
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:cwnd_event")
int cwnd_event(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	enum tcp_ca_event event = ctx[1];
	const struct settings *config;
	struct holding *holding;

	cubictcp_cwnd_event(sk, event);
	if (event != CA_EVENT_TX_START)
		return 0;
	config = load_settings();
	if (!config)
		return 0;
	holding = holding_of(sk);
	if (holding)
		count_subflow(holding, config->round);
	apply_bounds(sk);
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:pkts_acked")
int pkts_acked(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	cubictcp_acked(sk, (const struct ack_sample *)ctx[1]);
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:undo_cwnd")
__u32 undo_cwnd(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	return clamp_to_bounds(sk, tcp_reno_undo_cwnd(sk));
}

/* The next congestion control would begin with slow start, too. */
SEC("struct_ops/tcp_congestion_ops:release")
int release(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct holding *holding = holding_of(sk);

	if (holding && holding->bounded)
		end_slow_start((struct tcp_sock *)sk, holding);
	return 0;
}

#endif
