/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of connections: how they began, what passed, and how long packets take. A round trip is measured in two
 * halves, for what stands between the terminal and the port is seen by neither direction alone.
 *
 *   terminal ── near ── port ── far ── other end
 *
 * far:  from new data to what acknowledges it; nothing that may have been sent twice is measured (Karn).
 * near: from a timestamp to the data that echoes it, and from the answer to the first segment to what follows. An echo
 *       that comes after a second's silence says when the terminal had something to send, and is no measure. Without
 *       timestamps the beginning's is all that is known.
 */
#ifndef RECEIVE_WINDOW_FLOW_H
#define RECEIVE_WINDOW_FLOW_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "receive_window.h"
#include "receive_window_segment.h"

#define TIMESTAMPS_BYTES 12	/* in each segment, where both ends have them */
#define SEGMENT_BYTES_LEAST 36	/* what Linux goes down to, whatever it is told */
#define ACKED_AT_ONCE_MOST (1U << 30)	/* no window is larger (RFC 7323, 2.2) */
#define SILENCE_NS 1000000000ULL

/*
 * Three places, and in each what was heard of longest ago is forgotten first: whatever a terminal sends by itself, only what
 * others have answered moves out what they have answered.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OPENINGS_MAX);
	__type(key, struct ends);
	__type(value, struct opening);
} openings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS_MAX);
	__type(key, struct ends);
	__type(value, struct flow);
} flows SEC(".maps");

/* Their beginning was not seen. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRANGERS_MAX);
	__type(key, struct ends);
	__type(value, struct flow);
} strangers SEC(".maps");

static __always_inline struct flow *find(const struct ends *ends)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, ends);

	return flow ? flow : bpf_map_lookup_elem(&strangers, ends);
}

static __always_inline bool is_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

static __always_inline void measured(struct half *half, __u64 took_ns)
{
	__u32 us = took_ns / 1000;

	if (!us)
		us = 1;
	if (!half->least_us || us < half->least_us)
		half->least_us = us;
	half->lately8_us = half->lately8_us ? half->lately8_us - half->lately8_us / 8 + us : us * 8;
}

static __always_inline void open(const struct segment *segment, bool by_terminal, __u64 now_ns)
{
	struct opening opening = {
		.at_ns = now_ns, .isn = bpf_ntohl(segment->tcp.seq), .bytes = segment->bytes, .by_terminal = by_terminal,
		.greeting = segment->options.greeting,
	};
	struct opening *before = bpf_map_lookup_elem(&openings, &segment->ends);

	if (before && before->isn == opening.isn && before->by_terminal == by_terminal) {
		before->repeated = 1;
		return;
	}
	bpf_map_update_elem(&openings, &segment->ends, &opening, BPF_ANY);
}

static __always_inline __u16 lesser(__u16 a, __u16 b)
{
	return a < b ? a : b;
}

/* The answer to a first segment. Only this makes a flow that has a scale: no packet by itself makes it anything else. */
static __always_inline void answer(const struct segment *segment, bool by_terminal, __u64 now_ns)
{
	struct opening *opening = bpf_map_lookup_elem(&openings, &segment->ends);
	const struct greeting *reply = &segment->options.greeting, *far;
	struct flow flow = {}, *known;
	__u32 taken;
	bool stamped;

	if (!opening || opening->by_terminal == by_terminal)
		return;
	taken = bpf_ntohl(segment->tcp.ack_seq) - (opening->isn + 1);
	if (taken > opening->bytes) /* the other end may leave any of them, to be sent again */
		return;
	if (opening->answered) {
		known = bpf_map_lookup_elem(&flows, &segment->ends);
		if (known)
			known->greeted_ns = 0; /* which of the two is followed is not known */
		return;
	}
	opening->answered = 1;
	far = by_terminal ? &opening->greeting : reply;
	stamped = opening->greeting.stamped && reply->stamped;
	flow.seen_ns = flow.data_ns = now_ns;
	flow.has_scale = 1;
	if (opening->greeting.has_scale && reply->has_scale)
		flow.scale = far->scale;
	flow.mss_bytes = lesser(opening->greeting.mss_bytes, reply->mss_bytes);
	flow.segment_bytes = SEGMENT_BYTES_LEAST;
	if (flow.mss_bytes > SEGMENT_BYTES_LEAST + TIMESTAMPS_BYTES)
		flow.segment_bytes = flow.mss_bytes - (stamped ? TIMESTAMPS_BYTES : 0);
	flow.joined = opening->greeting.joined && reply->joined;
	flow.mptcp = flow.joined || (opening->greeting.capable && reply->capable);
	flow.acked = flow.sent = (by_terminal ? bpf_ntohl(segment->tcp.seq) : opening->isn) + 1;
	if (!by_terminal)
		flow.sent += opening->bytes;
	flow.has_acked = flow.has_sent = 1;
	if (!opening->repeated)
		measured(by_terminal ? &flow.near : &flow.far, now_ns - opening->at_ns);
	if (!by_terminal)
		flow.greeted_ns = now_ns;
	bpf_map_update_elem(&flows, &segment->ends, &flow, BPF_ANY);
	bpf_map_delete_elem(&strangers, &segment->ends);
}

/* An end that others behind the port made up, who do not know where the terminal's own data are, is none. */
static __always_inline bool is_own_end(const struct flow *flow, const struct segment *segment)
{
	/* The edge of MPTCP counts the connection's data, and not these. */
	__u32 last = flow->has_edge && !flow->mptcp ? flow->edge : flow->sent;

	return !flow->has_acked || !flow->has_sent || bpf_ntohl(segment->tcp.seq) - flow->acked <= last + 1 - flow->acked;
}

/* The end is the agent's to make, some seconds after: a terminal that says so and goes on sending goes on as it was. */
static __always_inline void finish(struct flow *flow, const struct segment *segment, __u8 by)
{
	if ((segment->tcp.rst || segment->tcp.fin) && by == FINISHED_TERMINAL && !is_own_end(flow, segment))
		return;
	if (segment->tcp.rst)
		flow->finished |= FINISHED_RESET;
	else if (segment->tcp.fin)
		flow->finished |= by;
	else if (segment->bytes && flow->finished & FINISHED_RESET)
		flow->finished = 0;
}

/* Of what the terminal has sent, or of its end. */
static __always_inline bool is_plausible(const struct flow *flow, __u32 ack)
{
	return !flow->has_sent || !is_after(ack, flow->sent + 1);
}

static __always_inline void acknowledged(struct flow *flow, __u32 ack, __u64 now_ns)
{
	if (!is_plausible(flow, ack))
		return;
	if (!flow->has_acked) {
		flow->acked = ack;
		flow->has_acked = 1;
	} else if (is_after(ack, flow->acked) && ack - flow->acked < ACKED_AT_ONCE_MOST) {
		flow->acked_bytes += ack - flow->acked;
		flow->acked = ack;
	}
	if (flow->far_ns && !is_after(flow->far_end, ack)) {
		measured(&flow->far, now_ns - flow->far_ns);
		flow->far_ns = 0;
	}
}

/* Of several packets with one timestamp the first is awaited: the echo says no more. */
static __always_inline void stamp(struct flow *flow, __u32 value, __u64 now_ns)
{
	if (flow->has_latest && !is_after(value, flow->near_latest))
		return;
	flow->near_latest = value;
	flow->has_latest = 1;
	if (flow->near_ns)
		return;
	flow->near_value = value;
	flow->near_ns = now_ns;
	flow->near_busy = 0;
}

static __always_inline void echoed(struct flow *flow, const struct segment *segment, __u64 now_ns)
{
	__u64 took_ns = now_ns - flow->near_ns;

	if (!flow->near_ns || is_after(segment->options.echo, flow->near_latest)) /* nobody has said that yet */
		return;
	if (is_after(flow->near_value, segment->options.echo)) {
		if (segment->bytes)
			flow->near_busy = 1;
		return;
	}
	flow->near_ns = 0;
	if (segment->bytes && (flow->near_busy || took_ns < SILENCE_NS))
		measured(&flow->near, took_ns);
}

static __always_inline void carried(struct flow *flow, const struct segment *segment, __u64 now_ns)
{
	__u32 from = bpf_ntohl(segment->tcp.seq), to = from + segment->bytes;

	flow->data_ns = now_ns;
	if (flow->has_sent && !is_after(to, flow->sent)) {
		if (flow->far_ns && is_after(flow->far_end, from))
			flow->far_ns = 0;
		return;
	}
	if (flow->has_acked && to - flow->acked > ACKED_AT_ONCE_MOST)
		return; /* behind what was acknowledged, by half a round of numbers: it would seem to be answered at once */
	flow->sent = to;
	flow->has_sent = 1;
	if (!flow->far_ns) {
		flow->far_end = to;
		flow->far_ns = now_ns;
	}
}

#endif
