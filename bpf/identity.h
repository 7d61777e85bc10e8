/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The identity of a packet is everything in it that routers on the way do not change:
 *   IPv4      addresses, protocol, length, identification, fragment offset, reserved flag, bytes after the header
 *   IPv6      addresses, next header, length, flow label, bytes after the header, extension headers included
 *   both      VLAN identifiers, of two tags at most
 *   excluded  TTL, hop limit, DSCP, ECN, DF, header checksum, Ethernet header
 * A part would not do: a packet corrupted beyond that part would pass as the first, and its sound copy would be dropped.
 * The identity is stored as a keyed hash (identity_hash.h): forging a collision takes the key.
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
#include "identity_hash.h"
#include "packet.h"

#define PACKET_MAX PAYLOAD_MAX	/* bytes: of IPv4 with its header, of IPv6 without */
#define HOPS_MIN 3		/* the site and the next router each decrement the hop limit */

enum identity { IDENTIFIED, UNIDENTIFIED, NOT_FORWARDED };

/* Encodes which pairs the hash takes, so that two packets never differ in the number of pairs alone. */
static __always_inline __u64 kind_word(__u8 version, __u32 tags, __u8 protocol, __be16 bytes, __u32 rest)
{
	return (__u64)(version << 2 | tags) << 56 | (__u64)protocol << 48 | (__u64)bytes << 32 | rest;
}

static __always_inline enum identity identify_ipv4(struct nh *nh, struct rest *rest, __u32 tags, __u32 *payload)
{
	const struct iphdr *ip = advance(rest, sizeof(*ip));
	__u32 bytes;

	if (!ip || ip->version != 4 || ip->ihl != sizeof(*ip) / 4)
		return UNIDENTIFIED;
	bytes = bpf_ntohs(ip->tot_len);
	if (bytes < sizeof(*ip) || bytes > PACKET_MAX || rest->end - (const void *)ip < bytes || !is_sound(ip, *rest, 0))
		return UNIDENTIFIED;
	if (ip->ttl < HOPS_MIN)
		return NOT_FORWARDED;
	nh_take(nh, KIND_PAIR, (__u64)ip->saddr << 32 | ip->daddr,
		kind_word(ip->version, tags, ip->protocol, ip->tot_len,
			  (__u32)ip->id << 16 | (ip->frag_off & bpf_htons(0xbfff))));
	*payload = bytes - sizeof(*ip);
	return IDENTIFIED;
}

/* A payload length of 0 means no payload, or a jumbogram (RFC 2675) with its length in an option. */
static __always_inline enum identity identify_ipv6(struct nh *nh, struct rest *rest, __u32 tags, __u32 *payload)
{
	const struct ipv6hdr *ip = advance(rest, sizeof(*ip));
	const __u64 *addresses;
	__u32 bytes;

	if (!ip || ip->version != 6)
		return UNIDENTIFIED;
	bytes = bpf_ntohs(ip->payload_len);
	if (!bytes || bytes > PACKET_MAX || rest->end - rest->at < bytes)
		return UNIDENTIFIED;
	if (ip->hop_limit < HOPS_MIN)
		return NOT_FORWARDED;
	addresses = (const void *)&ip->saddr;
	nh_take(nh, ADDRESS_PAIRS, addresses[0], addresses[1]);
	nh_take(nh, ADDRESS_PAIRS + 1, addresses[2], addresses[3]);
	nh_take(nh, KIND_PAIR, 0, kind_word(ip->version, tags, ip->nexthdr, ip->payload_len,
					    (ip->flow_lbl[0] & 0x0f) << 16 | ip->flow_lbl[1] << 8 | ip->flow_lbl[2]));
	*payload = bytes;
	return IDENTIFIED;
}

static __always_inline bool same_mac(const __u8 *one, const __u8 *other)
{
	return *(const __u32 *)one == *(const __u32 *)other && *(const __u16 *)(one + 4) == *(const __u16 *)(other + 4);
}

/* `mac` is the port's address. */
static __always_inline enum identity identify(struct xdp_md *ctx, const struct mac *mac, struct nh *nh)
{
	struct rest rest = { .at = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end };
	const struct ethhdr *frame = advance(&rest, sizeof(*frame));
	const struct {
		__be16 control;
		__be16 kind;
	} *tag;
	enum identity identity;
	__u32 tags = 0, payload = 0;
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
		nh_take(nh, TAG_PAIRS + i, tag->control & bpf_htons(0x0fff), 0);
		kind = tag->kind;
		tags++;
	}
	if (kind == bpf_htons(ETH_P_IP))
		identity = identify_ipv4(nh, &rest, tags, &payload);
	else if (kind == bpf_htons(ETH_P_IPV6))
		identity = identify_ipv6(nh, &rest, tags, &payload);
	else
		identity = NOT_FORWARDED;
	if (identity == IDENTIFIED && !nh_take_payload(ctx, nh, rest.offset, payload))
		return UNIDENTIFIED;
	return identity;
}

#endif
