/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bounds of a socket's window: the cap of its address pair during the lease, divided by the subflows that share it.
 */
#ifndef CWND_BOUNDS_H
#define CWND_BOUNDS_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cwnd.h"
#include "kernel_tcp.h"

#define CONNECTIONS_MAX 8192
#define IDLE_ROUNDS 5		/* after this many rounds without sending, a subflow leaves its share to the others */

/* State of a socket under a cap. */
struct holding {
	char own[NAME_BYTES];	/* the congestion control before the cap */
	__u32 own_pace, pace;	/* pacing rate before the cap; current one */
	__u32 token;		/* of its MPTCP connection; 0: none */
	__u32 counted;		/* the last round that counted this subflow */
	__u32 sent, sent_round;	/* segments; the last round in which they grew */
	__u32 clamped;		/* cwnd_clamp.bpf.c only: the clamp that it set */
	bool bounded;		/* cwnd_cubic.bpf.c only */
};

/* How many subflows share a cap. The count of the previous round stays valid while a round counts. */
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

static __always_inline const struct settings *load_settings(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&settings, &only);
}

static __always_inline void map_ipv4(__u32 to[4], __u32 from)
{
	to[0] = to[1] = 0;
	to[2] = __builtin_bswap32(0xffff);
	to[3] = from;
}

static __always_inline const struct cap *cap_of(const struct tcp_sock *tp, const struct settings *config)
{
	const struct sock_common *sk = &tp->inet_conn.icsk_inet.sk.__sk_common;
	struct pair pair;

	if (bpf_ktime_get_ns() > config->lease_until_ns)
		return NULL;
	if (sk->skc_family == AF_INET) {
		map_ipv4(pair.source, sk->skc_rcv_saddr);
		map_ipv4(pair.destination, sk->skc_daddr);
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

static __always_inline __u32 token_of(const struct tcp_sock *tp)
{
	const struct mptcp_subflow_context *subflow;

	if (!bpf_core_field_exists(tp->is_mptcp) || !tp->is_mptcp)
		return 0;
	subflow = (const void *)tp->inet_conn.icsk_ulp_data;
	return BPF_CORE_READ(subflow, conn, token);
}

/* Returns NULL if there is no memory. `at` is the argument for the socket option helpers. */
static __always_inline struct holding *create_holding(void *at, struct tcp_sock *tp, const struct settings *config)
{
	struct holding *holding = bpf_sk_storage_get(&holdings, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	__u32 pace = NO_PACE;

	if (!holding)
		return NULL;
	if (bpf_getsockopt(at, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace)))
		pace = NO_PACE; /* a kernel without this option zeroes the result */
	holding->own_pace = holding->pace = pace;
	holding->token = token_of(tp);
	holding->sent_round = config->round;
	return holding;
}

/* Counts the subflow in this round unless it is idle. */
static __always_inline void count_sending(const struct tcp_sock *tp, struct holding *holding, __u32 round)
{
	if (tp->data_segs_out != holding->sent) {
		holding->sent = tp->data_segs_out;
		holding->sent_round = round;
	}
	if (tp->packets_out || round - holding->sent_round < IDLE_ROUNDS)
		count_subflow(holding, round);
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

static __always_inline __u32 sharing_subflows(const struct holding *holding)
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

/* Returns false if the socket has no bounds. */
static __always_inline bool bounds_of(const struct tcp_sock *tp, const struct holding *holding, struct bounds *bounds)
{
	const struct settings *config;
	const struct cap *cap;
	__u32 parts;

	if (!holding)
		return false;
	config = load_settings(); /* not earlier: clang would merge both NULL checks, and the verifier rejects that */
	if (!config)
		return false;
	cap = cap_of(tp, config);
	if (!cap)
		return false;
	parts = sharing_subflows(holding);
	bounds->most = cap->most / parts;
	bounds->least = cap->least / parts;
	bounds->pace = cap->pace == NO_PACE ? NO_PACE : cap->pace / parts;
	if (!bounds->most)
		bounds->most = 1; /* with 0 it could not send at all */
	return true;
}

static __always_inline struct holding *holding_of(struct sock *sk)
{
	return bpf_sk_storage_get(&holdings, sk, 0, 0);
}

static __always_inline void set_pace(void *sk, struct holding *holding, __u32 pace)
{
	if (pace > holding->own_pace)
		pace = holding->own_pace;
	if (pace == holding->pace)
		return;
	if (!bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace)))
		holding->pace = pace;
}

#endif
