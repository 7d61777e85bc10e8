/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives each packet an identity before it is copied.
 *
 * The identification of an atomic datagram (DF set, not a fragment) has no meaning, and a forwarder may set it
 * (RFC 6864, 4.1). Linux sends 0, so two equal datagrams (a repeated DNS query, a keepalive) look like two copies of one.
 *
 * The numbers of an address pair are a keyed permutation of a counter (RFC 7739, 5). They repeat after 65,535 packets of
 * the pair. An observer learns neither the next number nor what else a terminal sends. 0 is left out: it means unset.
 *
 * Not changed:
 *   packets with IPsec AH, which signs the identification (RFC 4302, 3.3.3.1.1.1)
 *   IPv4 with options, which the eliminator does not identify (identity.h)
 *   TCP whose sender sets identifications
 *   TCP with data and a timestamp: a retransmission has another timestamp (RFC 7323, 4.1), and GRO at the receiver
 *   needs identifications that are equal or consecutive
 */
#ifndef IPV4_ID_H
#define IPV4_ID_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"
#include "siphash.h"

#define DONT_FRAGMENT 0x4000
#define FRAGMENT 0x3fff		/* more fragments, or an offset */
#define TIMESTAMP 0x0101080a	/* RFC 7323, appendix A: the first word of an aligned option */
#define TIMESTAMP_WORDS 3
#define COUNTERS 4096		/* a power of two; address pairs with the same counter share its numbers */
#define NUMBERS 0xffff
#define ROUNDS 6

const volatile __u64 numbering_key[2];	/* random per agent */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);	/* 64 bits: the wrap of a narrower counter would repeat a number at once */
} number SEC(".maps");

/* A Feistel network over two bytes. */
static __always_inline __u16 permute(__u16 number, const __u64 key[2])
{
	const __u32 keys[4] = { key[0], key[0] >> 32, key[1], key[1] >> 32 };
	__u8 left = number >> 8, right = number, before;
	__u32 mixed;

#pragma unroll
	for (__u32 round = 0; round < ROUNDS; round++) {
		mixed = (right ^ (keys[round % 4] + round)) * 0x85ebca6b; /* MurmurHash3's finalizer */
		mixed = (mixed ^ mixed >> 13) * 0xc2b2ae35;
		before = left;
		left = right;
		right = before ^ mixed >> 24;
	}
	return (__u16)left << 8 | right;
}

/* Returns 1 to 65,535, each once per cycle. */
static __always_inline __u16 identification(__u64 drawn, const __u64 key[2])
{
	__u16 id = permute(drawn % NUMBERS, key);

	return id ? id : permute(NUMBERS, key); /* the image of NUMBERS, which no draw has */
}

static __always_inline bool is_distinguishable(const struct iphdr *ip, const void *end)
{
	const struct tcphdr *tcp = (const void *)(ip + 1);
	const __be32 *options = (const void *)(tcp + 1);

	if (ip->id)
		return true;
	if ((const void *)(options + TIMESTAMP_WORDS) > end || tcp->doff * 4 < sizeof(*tcp) + TIMESTAMP_WORDS * 4)
		return false;
	return *options == bpf_htonl(TIMESTAMP) && bpf_ntohs(ip->tot_len) > sizeof(*ip) + tcp->doff * 4;
}

static __always_inline void set_identification(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *frame = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(frame + 1);
	__u64 key[2] = { numbering_key[0], numbering_key[1] };
	struct sip s;
	__u64 *next;
	__u32 at;
	__be16 id;

	if ((void *)(ip + 1) > end || frame->h_proto != bpf_htons(ETH_P_IP))
		return;
	if (ip->version != 4 || ip->ihl != sizeof(*ip) / 4 || ip->protocol == IPPROTO_AH)
		return;
	if (!(ip->frag_off & bpf_htons(DONT_FRAGMENT)) || ip->frag_off & bpf_htons(FRAGMENT))
		return;
	if (ip->protocol == IPPROTO_TCP && is_distinguishable(ip, end))
		return;
	sip_begin(&s, key);
	sip_take(&s, (__u64)ip->saddr << 32 | ip->daddr);
	sip_end(&s, key);
	at = key[0] & (COUNTERS - 1);
	next = bpf_map_lookup_elem(&number, &at);
	if (!next)
		return;
	id = bpf_htons(identification(__sync_fetch_and_add(next, 1), key));
	ip->check = update_checksum(ip->check, ip->id, id);
	ip->id = id;
}

#endif
