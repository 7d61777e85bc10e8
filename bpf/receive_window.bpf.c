// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lowers the TCP windows advertised to terminals to their caps (tc, egress), and observes what terminals send (tc,
 * ingress). Both return TC_ACT_UNSPEC, so that the next program sees every packet.
 *
 * The program never raises the receiver's window and never retracts it: the right edge stays until data has reached it.
 * The field counts units of 2^scale. A window is rounded up to a unit, an advertised edge down, as receivers do
 * (RFC 7323, 2.4). The subflows of an MPTCP connection share one window above the data-level ACK (RFC 8684, 3.3.1), so
 * the edge is tracked there.
 *
 * After a cap grew or ended, the window doubles every DOUBLE_NS, and at most once per ACK: all at once, the withheld data
 * would arrive in one burst.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "receive_window.h"
#include "receive_window_flow.h"
#include "receive_window_segment.h"

#define DOUBLE_NS 125000000ULL	/* from 3 kB to a large buffer's 3 MB in about a second */
#define WINDOW_BYTES_MOST (1ULL << 30)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CAPS_MAX);
	__type(key, struct pair);
	__type(value, __u32);	/* segments */
} caps SEC(".maps");

/* Returns the cap in bytes; 0: none. */
static __always_inline __u64 cap_bytes(const struct segment *segment, const struct flow *flow, __u64 now_ns)
{
	struct settings *set;
	__u32 *segments, zero = 0;
	__u64 bytes;

	set = bpf_map_lookup_elem(&settings, &zero);
	if (!set || set->lease_until_ns <= now_ns)
		return 0;
	segments = bpf_map_lookup_elem(&caps, &segment->ends.pair);
	if (!segments)
		return 0;
	bytes = (__u64)*segments * flow->segment_bytes;
	return bytes < WINDOW_BYTES_MOST ? bytes : WINDOW_BYTES_MOST;
}

static __always_inline void update_allowed(struct flow *flow, __u64 cap, __u64 own, __u64 now_ns)
{
	__u64 since_ns = now_ns - flow->allowed_ns, more;

	if (cap && (!flow->allowed_bytes || cap <= flow->allowed_bytes)) {
		flow->allowed_bytes = cap;
		flow->allowed_ns = now_ns;
		return;
	}
	if (!flow->allowed_bytes)
		return;
	if (since_ns > DOUBLE_NS)
		since_ns = DOUBLE_NS;
	more = flow->allowed_bytes * since_ns / DOUBLE_NS;
	if (!more)
		return;
	flow->allowed_ns = now_ns;
	flow->allowed_bytes += more;
	if (cap && flow->allowed_bytes > cap)
		flow->allowed_bytes = cap;
	if (!cap && flow->allowed_bytes >= own)
		flow->allowed_bytes = 0;
}

static __always_inline void advertise(struct __sk_buff *skb, const struct segment *segment, __u16 units)
{
	__be16 before = segment->tcp.window, after = bpf_htons(units);

	/* The pseudo header sum stays the same, so complete and offloaded checksums both remain valid. */
	if (bpf_l4_csum_replace(skb, segment->offset + offsetof(struct tcphdr, check), before, after, sizeof(after)) < 0)
		return;
	bpf_skb_store_bytes(skb, segment->offset + offsetof(struct tcphdr, window), &after, sizeof(after), 0);
}

static __always_inline void limit_window(struct __sk_buff *skb, const struct segment *segment, struct flow *flow,
					 __u64 now_ns)
{
	__u32 scale = segment->tcp.syn ? 0 : flow->scale & 15; /* a SYN's window is not scaled */
	__u64 own = (__u64)bpf_ntohs(segment->tcp.window) << scale, wanted;
	__u32 ack = bpf_ntohl(segment->tcp.ack_seq), base = flow->mptcp ? segment->options.data_ack : ack, left;
	bool has_base = (!flow->mptcp || segment->options.has_data_ack) && is_plausible(flow, ack);

	update_allowed(flow, cap_bytes(segment, flow, now_ns), own, now_ns);
	if (flow->allowed_bytes) {
		wanted = (flow->allowed_bytes + (1 << scale) - 1) >> scale << scale;
		left = flow->edge - base;
		if (has_base && flow->has_edge && (__s32)left > 0 && (left >> scale << scale) > wanted)
			wanted = left >> scale << scale;
		if (wanted < own) {
			advertise(skb, segment, wanted >> scale);
			own = wanted;
		}
	}
	if (has_base && (!flow->has_edge || is_after(base + own, flow->edge))) {
		flow->edge = base + own;
		flow->has_edge = 1;
	}
}

SEC("tc")
int bicast_lower(struct __sk_buff *skb)
{
	struct segment segment = {};
	__u64 now_ns = bpf_ktime_get_ns();
	struct flow *flow;

	if (!read_segment(skb, true, &segment))
		return TC_ACT_UNSPEC;
	if (segment.tcp.syn && !segment.tcp.ack) {
		record_syn(&segment, false, now_ns);
		return TC_ACT_UNSPEC;
	}
	if (segment.tcp.syn)
		record_syn_ack(&segment, false, now_ns);
	flow = find(&segment.ends);
	if (!flow)
		return TC_ACT_UNSPEC;
	flow->seen_ns = now_ns;
	record_finish(flow, &segment, FINISHED_OTHER);
	if (segment.tcp.rst || !segment.tcp.ack)
		return TC_ACT_UNSPEC;
	if (!segment.tcp.syn)
		on_ack(flow, bpf_ntohl(segment.tcp.ack_seq), now_ns);
	if (segment.options.syn_options.has_timestamps)
		start_near_sample(flow, segment.options.value, now_ns);
	if (flow->has_scale)
		limit_window(skb, &segment, flow, now_ns);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int bicast_watch(struct __sk_buff *skb)
{
	struct segment segment = {};
	__u64 now_ns = bpf_ktime_get_ns();
	struct flow *flow;

	if (!read_segment(skb, false, &segment))
		return TC_ACT_UNSPEC;
	if (segment.tcp.syn && !segment.tcp.ack) {
		record_syn(&segment, true, now_ns);
		return TC_ACT_UNSPEC;
	}
	if (segment.tcp.syn) {
		record_syn_ack(&segment, true, now_ns);
		return TC_ACT_UNSPEC;
	}
	flow = find(&segment.ends);
	if (!flow) {
		struct flow unknown = { .seen_ns = now_ns, .data_ns = now_ns };

		if (!segment.bytes)
			return TC_ACT_UNSPEC;
		bpf_map_update_elem(&strangers, &segment.ends, &unknown, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&strangers, &segment.ends);
		if (!flow)
			return TC_ACT_UNSPEC;
	}
	flow->seen_ns = now_ns;
	record_finish(flow, &segment, FINISHED_TERMINAL);
	if (flow->syn_ack_ns && segment.tcp.ack) {
		record_rtt(&flow->near, now_ns - flow->syn_ack_ns);
		flow->syn_ack_ns = 0;
	}
	if (segment.options.syn_options.has_timestamps)
		end_near_sample(flow, &segment, now_ns);
	if (segment.bytes)
		on_data(flow, &segment, now_ns);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
