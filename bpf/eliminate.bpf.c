// SPDX-License-Identifier: GPL-2.0
/*
 * Of several copies of a packet, each by a path of its own, the first one passes and the others end here (XDP).
 *
 *   wifi ─┐
 *         ├─ mark of the identity ─ seen by another path, within the window? ─ yes: dropped
 *   lte ──┘                                                                  └ no: passed, and remembered
 *
 * The rule is that of IEC 62439-3 and Linux's PRP: never drop a legitimate packet; now and then to let a copy through is
 * tolerable. So a packet is dropped only against one that came by ANOTHER path, within the window, and that this path has
 * not brought yet. What one path brings twice is two packets.
 *
 * The identity of a packet, which every copy shares and no other packet within the window does:
 *   always   both addresses, the protocol, the packet's length and VLAN tags
 *   IPv4     the identification and the fragment's place; the first 16 bytes behind the header (of TCP up to its checksum
 *            less two bytes, of UDP and ICMP with it); where the identification tells nothing (0 with DF, RFC 6864) or the
 *            protocol is none of these, every byte behind the header
 *   IPv6     the flow label; every byte behind the header, extension headers too
 * Not in it: what a router on the way changes (TTL, hop limit, DSCP, ECN, the header's checksum), and the Ethernet addresses.
 * It is kept as a keyed hash of 128 bits: to make two packets look the same, one must know the key.
 *
 * IPv4's options are passed over by the header's length. A fragment has its own place in the packet, so each is a packet of its
 * own here. Up to two VLAN tags are looked behind. Of a tunnel (VXLAN) that was named as a path the packet inside counts.
 *
 * Past the lease everything passes: the agent that was to renew it has gone.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "eliminate.h"

#define TAGS_MAX 2
#define HEAD_BYTES 16
#define FRAME_MAX 2048		/* bytes of a packet that are looked at; longer ones pass */
#define CHUNK_BYTES 32

struct bucket {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct entry entries[WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct place);
	__type(value, __u32);
} places SEC(".maps");		/* the path of each, from 0 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 16);	/* the agent may make it another power of two */
	__type(key, __u32);
	__type(value, struct bucket);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PATHS_MAX);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

/* SipHash with one round a word and three at the end, of 128 bits. */
struct sip {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotated(__u64 x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotated(s->v1, 13) ^ s->v0;
	s->v0 = rotated(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotated(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotated(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotated(s->v1, 17) ^ s->v2;
	s->v2 = rotated(s->v2, 32);
}

static __always_inline void sip_begin(struct sip *s, const __u64 secret[2])
{
	s->v0 = secret[0] ^ 0x736f6d6570736575ULL;
	s->v1 = secret[1] ^ 0x646f72616e646f6dULL ^ 0xee;
	s->v2 = secret[0] ^ 0x6c7967656e657261ULL;
	s->v3 = secret[1] ^ 0x7465646279746573ULL;
}

static __always_inline void sip_take(struct sip *s, __u64 word)
{
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

static __always_inline void sip_end(struct sip *s, __u64 mark[2])
{
	s->v2 ^= 0xee;
	for (int i = 0; i < 3; i++)
		sip_round(s);
	mark[0] = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
	s->v1 ^= 0xdd;
	for (int i = 0; i < 3; i++)
		sip_round(s);
	mark[1] = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* What is left of a frame, from an offset on. */
struct rest {
	struct xdp_md *ctx;
	__u32 offset;
};

static __always_inline bool take(struct rest *rest, void *into, __u32 bytes)
{
	if (bpf_xdp_load_bytes(rest->ctx, rest->offset, into, bytes))
		return false;
	rest->offset += bytes;
	return true;
}

static __always_inline bool sip_take_bytes(struct sip *s, struct rest rest, __u32 bytes)
{
	for (int i = 0; i < FRAME_MAX / CHUNK_BYTES; i++) {
		__u64 words[CHUNK_BYTES / 8] = {};

		if (bytes < CHUNK_BYTES) {
			__u32 last = bytes;

			barrier_var(last); /* or clang would take the next line out, by which the verifier knows the bound */
			last &= CHUNK_BYTES - 1;
			if (last && !take(&rest, words, last))
				return false;
			bytes = 0;
		} else if (!take(&rest, words, CHUNK_BYTES)) {
			return false;
		} else {
			bytes -= CHUNK_BYTES;
		}
		for (int each = 0; each < CHUNK_BYTES / 8; each++)
			sip_take(s, words[each]);
		if (!bytes)
			return true;
	}
	return false;
}

/* RFC 6864: only of a datagram that may be fragmented, or was, does the identification have a meaning. */
static __always_inline bool is_numbered(const struct iphdr *ip)
{
	return ip->id != 0 || !(ip->frag_off & bpf_htons(0x4000));
}

static __always_inline bool is_fragment(const struct iphdr *ip)
{
	return ip->frag_off & bpf_htons(0x3fff);
}

static __always_inline bool has_checked_head(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_ICMP;
}

static __always_inline bool identify_ipv4(struct sip *s, struct rest rest)
{
	struct iphdr ip;
	__u32 header, bytes;

	if (!take(&rest, &ip, sizeof(ip)))
		return false;
	header = ip.ihl * 4;
	bytes = bpf_ntohs(ip.tot_len);
	if (ip.version != 4 || header < sizeof(ip) || bytes < header)
		return false;
	sip_take(s, (__u64)ip.saddr << 32 | ip.daddr);
	sip_take(s, (__u64)ip.protocol << 48 | (__u64)ip.tot_len << 32 | (__u64)ip.id << 16 |
		    (ip.frag_off & bpf_htons(0x3fff)));
	rest.offset += header - sizeof(ip);
	bytes -= header;
	if (has_checked_head(ip.protocol) && is_numbered(&ip) && !is_fragment(&ip) && bytes > HEAD_BYTES)
		bytes = HEAD_BYTES;
	return sip_take_bytes(s, rest, bytes);
}

static __always_inline bool identify_ipv6(struct sip *s, struct rest rest)
{
	struct ipv6hdr ip;
	__u64 addresses[4];

	if (!take(&rest, &ip, sizeof(ip)) || ip.version != 6)
		return false;
	__builtin_memcpy(addresses, &ip.saddr, sizeof(addresses));
	for (int i = 0; i < 4; i++)
		sip_take(s, addresses[i]);
	sip_take(s, (__u64)ip.nexthdr << 48 | (__u64)ip.payload_len << 32 | (ip.flow_lbl[0] & 0x0f) << 16 |
		    ip.flow_lbl[1] << 8 | ip.flow_lbl[2]);
	return sip_take_bytes(s, rest, bpf_ntohs(ip.payload_len));
}

/* False where there is no identity: the packet passes. What goes to several hosts at once is nobody's copy. */
static __always_inline bool identify(struct sip *s, struct rest rest)
{
	struct ethhdr frame;
	struct {
		__be16 control;
		__be16 kind;
	} tag;
	__be16 kind;

	if (!take(&rest, &frame, sizeof(frame)) || frame.h_dest[0] & 1)
		return false;
	kind = frame.h_proto;
	for (int i = 0; i < TAGS_MAX; i++) {
		if (kind != bpf_htons(ETH_P_8021Q) && kind != bpf_htons(ETH_P_8021AD))
			break;
		if (!take(&rest, &tag, sizeof(tag)))
			return false;
		sip_take(s, tag.control & bpf_htons(0x0fff));
		kind = tag.kind;
	}
	if (kind == bpf_htons(ETH_P_IP))
		return identify_ipv4(s, rest);
	if (kind == bpf_htons(ETH_P_IPV6))
		return identify_ipv6(s, rest);
	return false;
}

enum verdict { FIRST, COPY, LATE, ROGUE };

struct judged {
	enum verdict verdict;
	__u64 after_ns;		/* the first */
	__u32 evicted;		/* the path that had won a packet which was forgotten unmatched; PATHS_MAX: none */
};

static __always_inline void begin(struct entry *entry, const __u64 mark[2], __u32 path, __u64 now_ns)
{
	entry->mark[0] = mark[0];
	entry->mark[1] = mark[1];
	entry->first_ns = now_ns;
	entry->path = path;
	entry->seen = 1 << path;
}

/* Under the bucket's lock. */
static __always_inline void judge(struct bucket *bucket, const __u64 mark[2], __u32 path, __u64 now_ns,
				  __u64 window_ns, struct judged *judged)
{
	struct entry *oldest = &bucket->entries[0];

	for (int i = 0; i < WAYS; i++) {
		struct entry *entry = &bucket->entries[i];

		if (entry->first_ns < oldest->first_ns)
			oldest = entry;
		if (entry->mark[0] != mark[0] || entry->mark[1] != mark[1] || !entry->first_ns)
			continue;
		judged->after_ns = now_ns - entry->first_ns;
		if (judged->after_ns > window_ns) {
			judged->verdict = entry->path == path ? FIRST : LATE;
			begin(entry, mark, path, now_ns);
		} else if (entry->seen & 1 << path) {
			judged->verdict = ROGUE;
			begin(entry, mark, path, now_ns);
		} else {
			judged->verdict = COPY;
			entry->seen |= 1 << path;
		}
		return;
	}
	if (oldest->first_ns && now_ns - oldest->first_ns <= window_ns && oldest->seen == 1 << oldest->path)
		judged->evicted = oldest->path;
	judged->verdict = FIRST;
	begin(oldest, mark, path, now_ns);
}

static __always_inline __u32 step_of(__u64 skew_ns)
{
	__u32 step = 0;

	for (int i = 0; i < SKEW_STEPS - 1; i++) {
		if (skew_ns >> 1 == 0)
			break;
		skew_ns >>= 1;
		step++;
	}
	return step;
}

static __always_inline struct counters *counters_of(__u32 path)
{
	return bpf_map_lookup_elem(&counts, &path);
}

static __always_inline int count(struct counters *counters, const struct judged *judged)
{
	struct counters *theirs;

	if (judged->evicted < PATHS_MAX) {
		theirs = counters_of(judged->evicted);
		if (theirs)
			theirs->evicted++;
	}
	if (judged->verdict == COPY || judged->verdict == LATE) /* or a window that is too short would never be known for it */
		counters->skew[step_of(judged->after_ns) & (SKEW_STEPS - 1)]++;
	switch (judged->verdict) {
	case COPY:
		counters->eliminated++;
		return XDP_DROP;
	case LATE:
		counters->late++;
		return XDP_PASS;
	case ROGUE:
		counters->rogue++;
		return XDP_PASS;
	default:
		counters->first++;
		return XDP_PASS;
	}
}

SEC("xdp")
int eliminate(struct xdp_md *ctx)
{
	struct place place = { .ifindex = ctx->ingress_ifindex, .vni = NO_VNI };
	struct rest rest = { .ctx = ctx };
	struct judged judged = { .evicted = PATHS_MAX };
	__u64 now_ns = bpf_ktime_get_ns();
	struct settings *ours;
	struct counters *counters;
	struct bucket *bucket;
	__u32 only = 0, at;
	__u64 mark[2];
	struct sip s;
	__u32 *path;

	ours = bpf_map_lookup_elem(&settings, &only);
	if (!ours || now_ns > ours->lease_until_ns)
		return XDP_PASS;
	path = bpf_map_lookup_elem(&places, &place);
	if (!path || *path >= PATHS_MAX)
		return XDP_PASS;
	counters = counters_of(*path);
	if (!counters)
		return XDP_PASS;
	sip_begin(&s, ours->secret);
	if (!identify(&s, rest)) {
		counters->unidentified++;
		return XDP_PASS;
	}
	sip_end(&s, mark);
	at = mark[0] & ours->buckets_mask;
	bucket = bpf_map_lookup_elem(&seen, &at);
	if (!bucket)
		return XDP_PASS;
	bpf_spin_lock(&bucket->lock);
	judge(bucket, mark, *path, now_ns, ours->window_ns, &judged);
	bpf_spin_unlock(&bucket->lock);
	return count(counters, &judged);
}

char LICENSE[] SEC("license") = "GPL";
