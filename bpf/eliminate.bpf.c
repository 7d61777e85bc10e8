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
 * The identity of a packet is the whole of it, but for what a router on the way changes:
 *   IPv4     addresses, protocol, length, identification, the fragment's place, and every byte behind the header
 *   IPv6     addresses, next header, length, flow label, and every byte behind the header, extension headers too
 *   either   the VLAN identifiers (two tags at most are looked behind)
 *   not      TTL, hop limit, DSCP, ECN, DF, the header's checksum, what stands in IPv4's options, the Ethernet header
 * Less than the whole would let one path spoil what the other brings well: a packet that was mended with, or broken, behind
 * the bytes that are looked at would pass as the first, and the sound one would end as its copy.
 * It is kept as a keyed hash of 128 bits: to make two packets look the same, one must know the key.
 *
 * A fragment is a packet of its own. What no receiver takes has no identity, and passes: cut short, not as long as it says,
 * IPv4 with a wrong checksum over the header.
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
#define PACKET_MAX 2048		/* bytes; longer ones pass */
#define CHUNK_BYTES 32
#define OFFSET_MASK 127		/* what the headers of Ethernet and IPv4 have is less */
#define LAST_MASK 4095		/* what they and a packet have is less */

struct bucket {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct entry entries[WAYS];
};

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

/* What was not looked at yet, of a frame. */
struct rest {
	const void *at, *end;
	__u32 offset;	/* of `at` */
};

static __always_inline const void *take(struct rest *rest, __u32 bytes)
{
	const void *at = rest->at;

	barrier_var(at); /* or clang would make a count of loops out of the next line, and the verifier knows no bound then */
	if (at + bytes > rest->end)
		return NULL;
	rest->at = at + bytes;
	rest->offset += bytes;
	return at;
}

/* A function of its own for the verifier's sake: it looks at it once, and not once for each way that leads here. */
__noinline int sip_take_bytes(struct xdp_md *ctx, struct sip *sip, __u32 offset, __u32 bytes)
{
	struct rest rest = { .end = (void *)(long)ctx->data_end, .offset = offset };
	const __u64 *words;
	__u32 last;
	struct sip s;

	if (!sip)
		return false;
	rest.at = (void *)(long)ctx->data + (offset & OFFSET_MASK);
	last = offset + bytes - 8;
	s = *sip;
	for (int i = 0; i < PACKET_MAX / CHUNK_BYTES && bytes >= CHUNK_BYTES; i++) {
		words = take(&rest, CHUNK_BYTES);
		if (!words)
			return false;
		for (int each = 0; each < CHUNK_BYTES / 8; each++)
			sip_take(&s, words[each]);
		bytes -= CHUNK_BYTES;
	}
	for (int i = 0; i < CHUNK_BYTES / 8 && bytes >= 8; i++) {
		words = take(&rest, 8);
		if (!words)
			return false;
		sip_take(&s, *words);
		bytes -= 8;
	}
	if (bytes) { /* fewer than 8: the last 8, then, of which some have been taken already */
		rest.at = (void *)(long)ctx->data + (last & LAST_MASK);
		words = take(&rest, 8);
		if (!words)
			return false;
		sip_take(&s, *words);
	}
	*sip = s;
	return true;
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* RFC 1071. */
static __always_inline bool is_sound(const struct iphdr *ip, struct rest options, __u32 bytes)
{
	const __u32 *words = (const void *)ip;
	__u64 sum = 0;

	for (int i = 0; i < 5; i++)
		sum += words[i];
	for (int i = 0; i < 10; i++) {
		const __u32 *word;

		if (!bytes)
			break;
		word = take(&options, 4);
		if (!word)
			return false;
		sum += *word;
		bytes -= 4;
	}
	return folded(sum) == 0xffff;
}

/*
 * The last word of what is hashed says how what stands before it is to be read, so that no two packets, of whatever kinds,
 * are the same words.
 */
static __always_inline __u64 closing(__u8 header_words, __u32 tags, __u8 protocol, __be16 bytes, __u32 rest)
{
	return (__u64)(header_words << 2 | tags) << 56 | (__u64)protocol << 48 | (__u64)bytes << 32 | rest;
}

static __always_inline bool identify_ipv4(struct xdp_md *ctx, struct sip *s, struct rest rest, __u32 tags)
{
	const struct iphdr *ip = take(&rest, sizeof(*ip));
	__u32 header, bytes;

	if (!ip || ip->version != 4)
		return false;
	header = ip->ihl * 4;
	bytes = bpf_ntohs(ip->tot_len);
	if (header < sizeof(*ip) || bytes < header || bytes > PACKET_MAX || rest.end - (const void *)ip < bytes)
		return false;
	if (!is_sound(ip, rest, header - sizeof(*ip)))
		return false;
	sip_take(s, (__u64)ip->saddr << 32 | ip->daddr);
	if (!sip_take_bytes(ctx, s, rest.offset + header - sizeof(*ip), bytes - header))
		return false;
	sip_take(s, closing(ip->ihl, tags, ip->protocol, ip->tot_len,
			    (__u32)ip->id << 16 | (ip->frag_off & bpf_htons(0x3fff))));
	return true;
}

/* Without a payload by its own length it is none, or a jumbogram (RFC 2675), whose length stands elsewhere. */
static __always_inline bool identify_ipv6(struct xdp_md *ctx, struct sip *s, struct rest rest, __u32 tags)
{
	const struct ipv6hdr *ip = take(&rest, sizeof(*ip));
	const __u64 *addresses;
	__u32 bytes;

	if (!ip || ip->version != 6)
		return false;
	bytes = bpf_ntohs(ip->payload_len);
	if (!bytes || bytes > PACKET_MAX || rest.end - rest.at < bytes)
		return false;
	addresses = (const void *)&ip->saddr;
	for (int i = 0; i < 4; i++)
		sip_take(s, addresses[i]);
	if (!sip_take_bytes(ctx, s, rest.offset, bytes))
		return false;
	sip_take(s, closing(0, tags, ip->nexthdr, ip->payload_len,
			    (ip->flow_lbl[0] & 0x0f) << 16 | ip->flow_lbl[1] << 8 | ip->flow_lbl[2]));
	return true;
}

/* False where there is no identity: the packet passes. What goes to several hosts at once is nobody's copy. */
static __always_inline bool identify(struct xdp_md *ctx, struct sip *s)
{
	struct rest rest = { .at = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end };
	const struct ethhdr *frame = take(&rest, sizeof(*frame));
	const struct {
		__be16 control;
		__be16 kind;
	} *tag;
	__u32 tags = 0;
	__be16 kind;

	if (!frame || frame->h_dest[0] & 1)
		return false;
	kind = frame->h_proto;
	for (int i = 0; i < TAGS_MAX; i++) {
		if (kind != bpf_htons(ETH_P_8021Q) && kind != bpf_htons(ETH_P_8021AD))
			break;
		tag = take(&rest, sizeof(*tag));
		if (!tag)
			return false;
		sip_take(s, tag->control & bpf_htons(0x0fff));
		kind = tag->kind;
		tags++;
	}
	if (kind == bpf_htons(ETH_P_IP))
		return identify_ipv4(ctx, s, rest, tags);
	if (kind == bpf_htons(ETH_P_IPV6))
		return identify_ipv6(ctx, s, rest, tags);
	return false;
}

enum verdict { FIRST, COPY, LATE, ROGUE };

struct judged {
	enum verdict verdict;
	__u64 after_ns;		/* the first */
	__u32 evicted;		/* the path that had won a packet which was forgotten too early; PATHS_MAX: none */
};

static __always_inline void begin(struct entry *entry, const __u64 mark[2], __u32 path, __u64 now_ns)
{
	entry->mark[0] = mark[0];
	entry->mark[1] = mark[1];
	entry->first_ns = now_ns;
	entry->path = path;
	entry->seen = 1 << path;
}

/* Another processor may have looked at its clock later, and been here before. */
static __always_inline __u64 since(__u64 now_ns, __u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* The one of which it is least goes first: free ones, those that all have brought (it makes no difference), the oldest. */
static __always_inline __u64 worth(const struct entry *entry, __u32 everyone)
{
	return entry->seen == everyone || !entry->first_ns ? entry->first_ns : entry->first_ns | 1ULL << 63;
}

/* Under the bucket's lock. */
static __always_inline void judge(struct bucket *bucket, const __u64 mark[2], __u32 path, __u64 now_ns,
				  const struct settings *ours, struct judged *judged)
{
	__u64 least = ~0ULL, each;
	struct entry *entry, *oldest = &bucket->entries[0];

	for (int i = 0; i < WAYS; i++) {
		entry = &bucket->entries[i];
		if (entry->mark[0] != mark[0] || entry->mark[1] != mark[1] || !entry->first_ns)
			continue;
		judged->after_ns = since(now_ns, entry->first_ns);
		if (judged->after_ns > ours->window_ns) {
			judged->verdict = entry->seen & 1 << path ? FIRST : LATE;
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
	for (int i = 0; i < WAYS; i++) {
		entry = &bucket->entries[i];
		each = worth(entry, ours->everyone);
		if (each < least) {
			least = each;
			oldest = entry;
		}
	}
	if (oldest->first_ns && since(now_ns, oldest->first_ns) <= ours->window_ns && oldest->seen != ours->everyone)
		judged->evicted = oldest->path;
	judged->verdict = FIRST;
	begin(oldest, mark, path, now_ns);
}

static __always_inline __u32 step_of(__u64 skew_ns)
{
	__u32 left, step = 0;

	if (skew_ns >> (SKEW_STEPS - 1))
		return SKEW_STEPS - 1;
	left = skew_ns;
	for (int bits = SKEW_STEPS / 2; bits; bits /= 2) {
		if (left >> bits) {
			left >>= bits;
			step += bits;
		}
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

static __always_inline __u32 path_of(const struct settings *ours, __u32 device)
{
	for (__u32 path = 0; path < PATHS_MAX; path++) {
		if (ours->devices[path] == device)
			return path;
	}
	return PATHS_MAX;
}

SEC("xdp")
int eliminate(struct xdp_md *ctx)
{
	struct judged judged = { .evicted = PATHS_MAX };
	__u64 now_ns = bpf_ktime_get_ns();
	struct settings *ours;
	struct counters *counters;
	struct bucket *bucket;
	__u32 only = 0, at, path;
	__u64 mark[2];
	struct sip s;

	ours = bpf_map_lookup_elem(&settings, &only);
	if (!ours || now_ns > ours->lease_until_ns)
		return XDP_PASS;
	path = path_of(ours, ctx->ingress_ifindex);
	if (path >= PATHS_MAX)
		return XDP_PASS;
	counters = counters_of(path);
	if (!counters)
		return XDP_PASS;
	sip_begin(&s, ours->secret);
	if (!identify(ctx, &s)) {
		counters->unidentified++;
		return XDP_PASS;
	}
	sip_end(&s, mark);
	at = mark[0] & ours->buckets_mask;
	bucket = bpf_map_lookup_elem(&seen, &at);
	if (!bucket)
		return XDP_PASS;
	bpf_spin_lock(&bucket->lock);
	judge(bucket, mark, path, now_ns, ours, &judged);
	bpf_spin_unlock(&bucket->lock);
	return count(counters, &judged);
}

char LICENSE[] SEC("license") = "GPL";
