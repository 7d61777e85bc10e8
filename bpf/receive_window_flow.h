/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State of connections: handshake, progress and round trips. A round trip is measured in two halves, because neither
 * direction alone shows the delay between terminal and port.
 *
 *   terminal ── near ── port ── far ── other end
 *
 * far:  from new data to its ACK; data that may be a retransmission is not measured (Karn).
 * near: from a timestamp to the data that echoes it, and from the SYN-ACK to the next packet. An echo after a second of
 *       silence measures the application and does not count. Without timestamps only the handshake is measured.
 */
#ifndef RECEIVE_WINDOW_FLOW_H
#define RECEIVE_WINDOW_FLOW_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "receive_window.h"
#include "receive_window_segment.h"

#define TIMESTAMPS_BYTES 12	/* in each segment, if both ends agreed */
#define SEGMENT_BYTES_LEAST 36	/* Linux's minimum, even if the MSS option is lower */
#define ACKED_AT_ONCE_MOST (1U << 30)	/* the largest window (RFC 7323, 2.2) */
#define SILENCE_NS 1000000000ULL

/*
 * Three LRU tables, so that packets of a terminal that nobody answered cannot evict answered connections.
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

/* Connections whose handshake was not seen. */
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

static __always_inline void record_rtt(struct half *half, __u64 took_ns)
{
	__u32 us = took_ns / 1000;

	if (!us)
		us = 1;
	if (!half->min_us || us < half->min_us)
		half->min_us = us;
	half->srtt8_us = half->srtt8_us ? half->srtt8_us - half->srtt8_us / 8 + us : us * 8;
}

static __always_inline void record_syn(const struct segment *segment, bool by_terminal, __u64 now_ns)
{
	struct opening opening = {
		.at_ns = now_ns, .isn = bpf_ntohl(segment->tcp.seq), .bytes = segment->bytes, .by_terminal = by_terminal,
		.syn_options = segment->options.syn_options,
	};
	struct opening *before = bpf_map_lookup_elem(&openings, &segment->ends);

	if (before && before->isn == opening.isn && before->by_terminal == by_terminal) {
		before->repeated = 1;
		return;
	}
	bpf_map_update_elem(&openings, &segment->ends, &opening, BPF_ANY);
}

static __always_inline __u16 min_u16(__u16 a, __u16 b)
{
	return a < b ? a : b;
}

/* Handles a SYN-ACK. Only a handshake creates a flow with a known scale. */
static __always_inline void record_syn_ack(const struct segment *segment, bool by_terminal, __u64 now_ns)
{
	struct opening *opening = bpf_map_lookup_elem(&openings, &segment->ends);
	const struct syn_options *reply = &segment->options.syn_options, *far;
	struct flow flow = {}, *known;
	__u32 taken;
	bool has_timestamps;

	if (!opening || opening->by_terminal == by_terminal)
		return;
	taken = bpf_ntohl(segment->tcp.ack_seq) - (opening->isn + 1);
	if (taken > opening->bytes) /* the peer may accept any part of the SYN's data */
		return;
	if (opening->answered) {
		known = bpf_map_lookup_elem(&flows, &segment->ends);
		if (known)
			known->syn_ack_ns = 0; /* unknown which of the two the terminal follows */
		return;
	}
	opening->answered = 1;
	far = by_terminal ? &opening->syn_options : reply;
	has_timestamps = opening->syn_options.has_timestamps && reply->has_timestamps;
	flow.seen_ns = flow.data_ns = now_ns;
	flow.has_scale = 1;
	if (opening->syn_options.has_scale && reply->has_scale)
		flow.scale = far->scale;
	flow.mss_bytes = min_u16(opening->syn_options.mss_bytes, reply->mss_bytes);
	flow.segment_bytes = SEGMENT_BYTES_LEAST;
	if (flow.mss_bytes > SEGMENT_BYTES_LEAST + TIMESTAMPS_BYTES)
		flow.segment_bytes = flow.mss_bytes - (has_timestamps ? TIMESTAMPS_BYTES : 0);
	flow.joined = opening->syn_options.joined && reply->joined;
	flow.mptcp = flow.joined || (opening->syn_options.capable && reply->capable);
	flow.acked = flow.sent = (by_terminal ? bpf_ntohl(segment->tcp.seq) : opening->isn) + 1;
	if (!by_terminal)
		flow.sent += opening->bytes;
	flow.has_acked = flow.has_sent = 1;
	if (!opening->repeated)
		record_rtt(by_terminal ? &flow.near : &flow.far, now_ns - opening->at_ns);
	if (!by_terminal)
		flow.syn_ack_ns = now_ns;
	bpf_map_update_elem(&flows, &segment->ends, &flow, BPF_ANY);
	bpf_map_delete_elem(&strangers, &segment->ends);
}

/* Rejects a forged FIN or RST: other hosts behind the port do not know the terminal's sequence numbers. */
static __always_inline bool is_genuine_end(const struct flow *flow, const struct segment *segment)
{
	/* MPTCP's edge is a data sequence number, not one of the subflow. */
	__u32 last = flow->has_edge && !flow->mptcp ? flow->edge : flow->sent;

	return !flow->has_acked || !flow->has_sent || bpf_ntohl(segment->tcp.seq) - flow->acked <= last + 1 - flow->acked;
}

/* The agent removes a finished flow some seconds later. A terminal that sends data after its RST continues the flow. */
static __always_inline void record_finish(struct flow *flow, const struct segment *segment, __u8 by)
{
	if ((segment->tcp.rst || segment->tcp.fin) && by == FINISHED_TERMINAL && !is_genuine_end(flow, segment))
		return;
	if (segment->tcp.rst)
		flow->finished |= FINISHED_RESET;
	else if (segment->tcp.fin)
		flow->finished |= by;
	else if (segment->bytes && flow->finished & FINISHED_RESET)
		flow->finished = 0;
}

/* Whether the ACK covers what the terminal sent, its FIN included. */
static __always_inline bool is_plausible(const struct flow *flow, __u32 ack)
{
	return !flow->has_sent || !is_after(ack, flow->sent + 1);
}

static __always_inline void on_ack(struct flow *flow, __u32 ack, __u64 now_ns)
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
		record_rtt(&flow->far, now_ns - flow->far_ns);
		flow->far_ns = 0;
	}
}

/* Several packets may carry one timestamp: the sample starts at the first. */
static __always_inline void start_near_sample(struct flow *flow, __u32 value, __u64 now_ns)
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

static __always_inline void end_near_sample(struct flow *flow, const struct segment *segment, __u64 now_ns)
{
	__u64 took_ns = now_ns - flow->near_ns;

	if (!flow->near_ns || is_after(segment->options.echo, flow->near_latest)) /* an echo of a value that was never sent */
		return;
	if (is_after(flow->near_value, segment->options.echo)) {
		if (segment->bytes)
			flow->near_busy = 1;
		return;
	}
	flow->near_ns = 0;
	if (segment->bytes && (flow->near_busy || took_ns < SILENCE_NS))
		record_rtt(&flow->near, took_ns);
}

static __always_inline void on_data(struct flow *flow, const struct segment *segment, __u64 now_ns)
{
	__u32 from = bpf_ntohl(segment->tcp.seq), to = from + segment->bytes;

	flow->data_ns = now_ns;
	if (flow->has_sent && !is_after(to, flow->sent)) {
		if (flow->far_ns && is_after(flow->far_end, from))
			flow->far_ns = 0;
		return;
	}
	if (flow->has_acked && to - flow->acked > ACKED_AT_ONCE_MOST)
		return; /* half the sequence space behind the ACK: the sample would end at once */
	flow->sent = to;
	flow->has_sent = 1;
	if (!flow->far_ns) {
		flow->far_end = to;
		flow->far_ns = now_ns;
	}
}

#endif
