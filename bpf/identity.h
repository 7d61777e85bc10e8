/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The identity of a packet is everything in it that routers on the way do not change:
 *   IPv4      addresses, protocol, length, identification, fragment offset, reserved flag, bytes after the header
 *   IPv6      addresses, next header, length, flow label, bytes after the header, extension headers included
 *   both      VLAN identifiers, of two tags at most
 *   excluded  TTL, hop limit, DSCP, ECN, DF, header checksum, Ethernet header
 * A part would not do: a packet corrupted beyond that part would pass as the first, and its sound copy would be dropped.
 * The identity is stored as a keyed 128-bit hash: forging a collision takes the key.
 *
 * Each fragment is a packet of its own. Packets without an identity pass and are not recorded:
 *   not forwarded   the site would not forward it, so it must not displace a sound copy: not IP, not to the port's MAC
 *                   address, or its hop limit ends here or at the next router
 *   unidentified    malformed (truncated, wrong length or IPv4 header checksum), longer than PACKET_MAX, or with IPv4
 *                   options, which routers change and often refuse (RFC 7126)
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
#define PACKET_MAX 2048		/* bytes */
#define HOPS_MIN 3		/* the site and the next router each decrement the hop limit */
#define CHUNK_BYTES 32
#define OFFSET_MASK 127		/* above the length of Ethernet and IPv4 headers */
#define LAST_MASK 4095		/* above that of the headers and a packet */

enum identity { IDENTIFIED, UNIDENTIFIED, NOT_FORWARDED };

/* Not inlined: the verifier then checks it once instead of once per caller. */
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
		words = advance(&rest, CHUNK_BYTES);
		if (!words)
			return false;
		for (int each = 0; each < CHUNK_BYTES / 8; each++)
			sip_take(&s, words[each]);
		bytes -= CHUNK_BYTES;
	}
	for (int i = 0; i < CHUNK_BYTES / 8 && bytes >= 8; i++) {
		words = advance(&rest, 8);
		if (!words)
			return false;
		sip_take(&s, *words);
		bytes -= 8;
	}
	if (bytes) { /* fewer than 8 remain: take the last 8 bytes, overlapping the previous word */
		rest.at = (void *)(long)ctx->data + (last & LAST_MASK);
		words = advance(&rest, 8);
		if (!words)
			return false;
		sip_take(&s, *words);
	}
	*sip = s;
	return true;
}

/* The last hashed word encodes the structure of the others, so that packets of two kinds never hash the same words. */
static __always_inline __u64 trailer_word(__u8 version, __u32 tags, __u8 protocol, __be16 bytes, __u32 rest)
{
	return (__u64)(version << 2 | tags) << 56 | (__u64)protocol << 48 | (__u64)bytes << 32 | rest;
}

static __always_inline enum identity identify_ipv4(struct xdp_md *ctx, struct sip *s, struct rest rest, __u32 tags)
{
	const struct iphdr *ip = advance(&rest, sizeof(*ip));
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
	sip_take(s, trailer_word(ip->version, tags, ip->protocol, ip->tot_len,
			    (__u32)ip->id << 16 | (ip->frag_off & bpf_htons(0xbfff))));
	return IDENTIFIED;
}

/* A payload length of 0 means no payload, or a jumbogram (RFC 2675) with its length in an option. */
static __always_inline enum identity identify_ipv6(struct xdp_md *ctx, struct sip *s, struct rest rest, __u32 tags)
{
	const struct ipv6hdr *ip = advance(&rest, sizeof(*ip));
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
	sip_take(s, trailer_word(ip->version, tags, ip->nexthdr, ip->payload_len,
			    (ip->flow_lbl[0] & 0x0f) << 16 | ip->flow_lbl[1] << 8 | ip->flow_lbl[2]));
	return IDENTIFIED;
}

static __always_inline bool same_mac(const __u8 *one, const __u8 *other)
{
	return *(const __u32 *)one == *(const __u32 *)other && *(const __u16 *)(one + 4) == *(const __u16 *)(other + 4);
}

/* `mac` is the port's address. */
static __always_inline enum identity identify(struct xdp_md *ctx, const struct mac *mac, struct sip *s)
{
	struct rest rest = { .at = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end };
	const struct ethhdr *frame = advance(&rest, sizeof(*frame));
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
		tag = advance(&rest, sizeof(*tag));
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
