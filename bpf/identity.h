/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The identity of a packet is the whole of it, but for what a router on the way changes:
 *   IPv4     addresses, protocol, length, identification, the fragment's place, the reserved flag, and every byte behind
 *            the header
 *   IPv6     addresses, next header, length, flow label, and every byte behind the header, extension headers too
 *   either   the VLAN identifiers (two tags at most are looked behind)
 *   not      TTL, hop limit, DSCP, ECN, DF, the header's checksum, the Ethernet header
 * Less than the whole would let one path spoil what the other brings well: a packet that was altered or broken behind
 * the bytes that are looked at would pass as the first, and the sound one would end as its copy.
 * It is kept as a keyed hash of 128 bits: to make two packets look the same, one must know the key.
 *
 * A fragment is a packet of its own. A packet without an identity passes, and is not remembered:
 *   not forwarded   the site would not send it on, so that it must not stand for a sound copy: it is no IP, its destination
 *                   is not the port's MAC address, or its hop limit ends here or at the next router
 *   unidentified    no receiver takes it (cut short, not as long as it says, a wrong checksum over IPv4's header), it is
 *                   longer than PACKET_MAX, or it has IPv4 options, which routers change and often refuse (RFC 7126)
 */
#ifndef IDENTITY_H
#define IDENTITY_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "eliminate.h"
#include "packet.h"
#include "siphash.h"

#define TAGS_MAX 2
#define PACKET_MAX 2048		/* bytes; longer ones pass */
#define HOPS_MIN 3		/* of a hop limit: the site takes one, and so does the next router */
#define CHUNK_BYTES 32
#define OFFSET_MASK 127		/* what the headers of Ethernet and IPv4 have is less */
#define LAST_MASK 4095		/* what they and a packet have is less */

enum identity { IDENTIFIED, UNIDENTIFIED, NOT_FORWARDED };

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

/*
 * The last word of what is hashed says how what stands before it is to be read, so that no two packets, of whatever kinds,
 * are the same words.
 */
static __always_inline __u64 closing(__u8 version, __u32 tags, __u8 protocol, __be16 bytes, __u32 rest)
{
	return (__u64)(version << 2 | tags) << 56 | (__u64)protocol << 48 | (__u64)bytes << 32 | rest;
}

static __always_inline enum identity identify_ipv4(struct xdp_md *ctx, struct sip *s, struct rest rest, __u32 tags)
{
	const struct iphdr *ip = take(&rest, sizeof(*ip));
	__u32 bytes;

	if (!ip || ip->version != 4 || ip->ihl != sizeof(*ip) / 4)
		return UNIDENTIFIED;
	bytes = bpf_ntohs(ip->tot_len);
	if (bytes < sizeof(*ip) || bytes > PACKET_MAX || rest.end - (const void *)ip < bytes || !is_sound(ip, rest, 0))
		return UNIDENTIFIED;
	if (ip->ttl < HOPS_MIN)
		return NOT_FORWARDED;
	sip_take(s, (__u64)ip->saddr << 32 | ip->daddr);
	if (!sip_take_bytes(ctx, s, rest.offset, bytes - sizeof(*ip)))
		return UNIDENTIFIED;
	sip_take(s, closing(ip->version, tags, ip->protocol, ip->tot_len,
			    (__u32)ip->id << 16 | (ip->frag_off & bpf_htons(0xbfff))));
	return IDENTIFIED;
}

/* Without a payload by its own length it is none, or a jumbogram (RFC 2675), whose length stands elsewhere. */
static __always_inline enum identity identify_ipv6(struct xdp_md *ctx, struct sip *s, struct rest rest, __u32 tags)
{
	const struct ipv6hdr *ip = take(&rest, sizeof(*ip));
	const __u64 *addresses;
	__u32 bytes;

	if (!ip || ip->version != 6)
		return UNIDENTIFIED;
	bytes = bpf_ntohs(ip->payload_len);
	if (!bytes || bytes > PACKET_MAX || rest.end - rest.at < bytes)
		return UNIDENTIFIED;
	if (ip->hop_limit < HOPS_MIN)
		return NOT_FORWARDED;
	addresses = (const void *)&ip->saddr;
	for (int i = 0; i < 4; i++)
		sip_take(s, addresses[i]);
	if (!sip_take_bytes(ctx, s, rest.offset, bytes))
		return UNIDENTIFIED;
	sip_take(s, closing(ip->version, tags, ip->nexthdr, ip->payload_len,
			    (ip->flow_lbl[0] & 0x0f) << 16 | ip->flow_lbl[1] << 8 | ip->flow_lbl[2]));
	return IDENTIFIED;
}

static __always_inline bool same_mac(const __u8 *one, const __u8 *other)
{
	return *(const __u32 *)one == *(const __u32 *)other && *(const __u16 *)(one + 4) == *(const __u16 *)(other + 4);
}

/* `mac` is that of the port. */
static __always_inline enum identity identify(struct xdp_md *ctx, const struct mac *mac, struct sip *s)
{
	struct rest rest = { .at = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end };
	const struct ethhdr *frame = take(&rest, sizeof(*frame));
	const struct {
		__be16 control;
		__be16 kind;
	} *tag;
	__u32 tags = 0;
	__be16 kind;

	if (!frame || !same_mac(frame->h_dest, mac->bytes))
		return NOT_FORWARDED;
	kind = frame->h_proto;
	for (int i = 0; i < TAGS_MAX; i++) {
		if (kind != bpf_htons(ETH_P_8021Q) && kind != bpf_htons(ETH_P_8021AD))
			break;
		tag = take(&rest, sizeof(*tag));
		if (!tag)
			return NOT_FORWARDED;
		sip_take(s, tag->control & bpf_htons(0x0fff));
		kind = tag->kind;
		tags++;
	}
	if (kind == bpf_htons(ETH_P_IP))
		return identify_ipv4(ctx, s, rest, tags);
	if (kind == bpf_htons(ETH_P_IPV6))
		return identify_ipv6(ctx, s, rest, tags);
	return NOT_FORWARDED;
}

#endif
