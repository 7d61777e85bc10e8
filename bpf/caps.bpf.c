// SPDX-License-Identifier: GPL-2.0
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
 * The floor is not held while lost segments are repaired: then it is the threshold to which the window returns. So it is
 * no more than cubic that a path gets on which nothing comes back (CA_Loss).
 *
 * Subflows of one MPTCP connection share one cap: each has its pair's, divided by the number of those that have one and
 * lately sent something.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "caps.h"
#include "tcp.h"

#define IDLE_ROUNDS 5		/* without a segment sent: a subflow leaves its share to the others */
#define CONNECTIONS_MAX 8192

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* What is remembered of a socket that has our congestion control. */
struct holding {
	char own[NAME_BYTES];	/* what it had before */
	__u32 own_pace, pace;	/* what it had before, what it has now */
	__u32 token;		/* of its MPTCP connection; 0: none */
	__u32 counted;		/* the round in which it was counted among the connection's subflows */
	__u32 sent, sent_round;	/* segments; the round that found more than before */
	bool bounded;
};

/* How many subflows share a cap. A round is counted while the one before still counts. */
struct connection {
	__u32 round;
	__u32 subflows[2];	/* of even and odd rounds */
};

struct bounds {
	__u32 most, least, pace;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * CAPS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pair);
	__type(value, struct cap);
} caps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u32);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct holding);
} holdings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

static __always_inline const struct settings *ours(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&settings, &only);
}

static __always_inline void mapped(__u32 to[4], __u32 from)
{
	to[0] = to[1] = 0;
	to[2] = __builtin_bswap32(0xffff);
	to[3] = from;
}

static __always_inline const struct cap *cap_of(const struct tcp_sock *tp, const struct settings *now)
{
	const struct sock_common *sk = &tp->inet_conn.icsk_inet.sk.__sk_common;
	struct pair pair;

	if (bpf_ktime_get_ns() > now->lease_until_ns)
		return NULL;
	if (sk->skc_family == AF_INET) {
		mapped(pair.source, sk->skc_rcv_saddr);
		mapped(pair.destination, sk->skc_daddr);
	} else if (sk->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++) {
			pair.source[i] = sk->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			pair.destination[i] = sk->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		return NULL;
	}
	return bpf_map_lookup_elem(&caps, &pair);
}

static __always_inline void count_subflow(struct holding *holding, __u32 round)
{
	struct connection *connection, first = { .round = round, .subflows = { 1, 1 } };

	if (!holding->token || holding->counted == round)
		return;
	holding->counted = round;
	connection = bpf_map_lookup_elem(&connections, &holding->token);
	if (!connection) {
		bpf_map_update_elem(&connections, &holding->token, &first, BPF_ANY);
		return;
	}
	if (connection->round != round) {
		if (connection->round + 1 != round)
			connection->subflows[~round & 1] = 0;
		connection->subflows[round & 1] = 0;
		connection->round = round;
	}
	__sync_fetch_and_add(&connection->subflows[round & 1], 1);
}

static __always_inline __u32 sharers(const struct holding *holding)
{
	const struct connection *connection;
	__u32 more;

	if (!holding->token)
		return 1;
	connection = bpf_map_lookup_elem(&connections, &holding->token);
	if (!connection)
		return 1;
	more = connection->subflows[0] > connection->subflows[1] ? connection->subflows[0] : connection->subflows[1];
	return more ? more : 1;
}

/* False: there are none. */
static __always_inline bool bounds_of(const struct tcp_sock *tp, const struct holding *holding, struct bounds *bounds)
{
	const struct settings *now;
	const struct cap *cap;
	__u32 parts;

	if (!holding)
		return false;
	now = ours(); /* or clang would ask of both pointers at once whether they are none, which the verifier takes ill */
	if (!now)
		return false;
	cap = cap_of(tp, now);
	if (!cap)
		return false;
	parts = sharers(holding);
	bounds->most = cap->most / parts;
	bounds->least = cap->least / parts;
	bounds->pace = cap->pace == NO_PACE ? NO_PACE : cap->pace / parts;
	if (!bounds->most)
		bounds->most = 1; /* or it could not send at all */
	return true;
}

static __always_inline void paced(void *sk, struct holding *holding, __u32 pace)
{
	if (pace > holding->own_pace)
		pace = holding->own_pace;
	if (pace == holding->pace)
		return;
	if (!bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace)))
		holding->pace = pace;
}

/* A threshold above the window would mean slow start, from where there is no room for it. */
static __always_inline void settle(struct tcp_sock *tp, struct holding *holding)
{
	holding->bounded = false;
	if (tp->snd_ssthresh > tp->snd_cwnd)
		tp->snd_ssthresh = tp->snd_cwnd > 2 ? tp->snd_cwnd : 2;
}

static __always_inline struct holding *holding_of(struct sock *sk)
{
	return bpf_sk_storage_get(&holdings, sk, 0, 0);
}

static __always_inline void hold(struct sock *sk, __u8 state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct holding *holding = holding_of(sk);
	struct bounds bounds;

	if (!bounds_of(tp, holding, &bounds)) {
		if (!holding || !holding->bounded)
			return;
		settle(tp, holding);
		cubictcp_init(sk); /* its epoch is from before: it would want all at once what it could not have since */
		paced(sk, holding, NO_PACE);
		return;
	}
	holding->bounded = true;
	if (tp->snd_cwnd > bounds.most)
		tp->snd_cwnd = bounds.most;
	else if (tp->snd_cwnd < bounds.least && state < CA_CWR)
		tp->snd_cwnd = bounds.least;
	paced(sk, holding, bounds.pace);
}

static __always_inline __u8 state_of(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(&((struct tcp_sock *)sk)->inet_conn, icsk_ca_state);
}

static __always_inline __u32 within(struct sock *sk, __u32 segments)
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
	hold(sk, state_of(sk));
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:ssthresh")
__u32 ssthresh(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 segments = within(sk, cubictcp_recalc_ssthresh(sk));

	return segments > 2 ? segments : 2;
}

SEC("struct_ops/tcp_congestion_ops:cong_avoid")
int cong_avoid(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	cubictcp_cong_avoid(sk, ctx[1], ctx[2]);
	hold(sk, state_of(sk));
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:set_state")
int set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	cubictcp_state(sk, ctx[1]);
	hold(sk, ctx[1]);
	return 0;
}

SEC("struct_ops/tcp_congestion_ops:cwnd_event")
int cwnd_event(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	enum tcp_ca_event event = ctx[1];
	const struct settings *now;
	struct holding *holding;

	cubictcp_cwnd_event(sk, event);
	if (event != CA_EVENT_TX_START)
		return 0;
	now = ours();
	if (!now)
		return 0;
	holding = holding_of(sk);
	if (holding)
		count_subflow(holding, now->round);
	hold(sk, state_of(sk));
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

	return within(sk, tcp_reno_undo_cwnd(sk));
}

/* What comes after us would start slowly, too. */
SEC("struct_ops/tcp_congestion_ops:release")
int release(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct holding *holding = holding_of(sk);

	if (holding && holding->bounded)
		settle((struct tcp_sock *)sk, holding);
	return 0;
}

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

static __always_inline __u32 token_of(const struct tcp_sock *tp)
{
	const struct mptcp_subflow_context *subflow;

	if (!tp->is_mptcp)
		return 0;
	subflow = (const void *)tp->inet_conn.icsk_ulp_data;
	return BPF_CORE_READ(subflow, conn, token);
}

/* Gives a socket our congestion control; -errno: it has not got it. `at` is what the program may set options of. */
static __always_inline long take(void *at, struct tcp_sock *tp, const struct settings *now)
{
	char name[NAME_BYTES] = {}, wanted[NAME_BYTES];
	struct holding *holding;
	__u32 pace = NO_PACE;
	long failed;

	holding = bpf_sk_storage_get(&holdings, tp, 0, 0);
	if (!holding) {
		holding = bpf_sk_storage_get(&holdings, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!holding)
			return -12; /* ENOMEM */
		bpf_getsockopt(at, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace));
		holding->own_pace = holding->pace = pace;
		holding->token = token_of(tp);
		holding->sent_round = now->round;
	}
	has(tp, name);
	if (is_named(name, now->name)) /* an agent's that was here before us */
		__builtin_memcpy(holding->own, now->other, NAME_BYTES);
	else
		__builtin_memcpy(holding->own, name, NAME_BYTES);
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

static __always_inline bool is_sending(__u8 state)
{
	switch (state) {
	case BPF_TCP_ESTABLISHED:
	case BPF_TCP_CLOSE_WAIT:
	case BPF_TCP_FIN_WAIT1:
	case BPF_TCP_CLOSING:
	case BPF_TCP_LAST_ACK:
		return true;
	default:
		return false;
	}
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
	if (tp->data_segs_out != holding->sent) {
		holding->sent = tp->data_segs_out;
		holding->sent_round = now->round;
	}
	if (tp->packets_out || now->round - holding->sent_round < IDLE_ROUNDS)
		count_subflow(holding, now->round);
	return 0;
}

/* Gives a socket back what it had. */
static __always_inline long let(struct tcp_sock *tp, struct holding *holding, const struct settings *now, bool is_ours)
{
	long failed = 0;

	if (!holding)
		return is_ours ? give(tp, now->other) : 0;
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

char LICENSE[] SEC("license") = "GPL";
