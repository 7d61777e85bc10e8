/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses a TCP segment to or from a terminal. Skipped: fragments, IPv6 with extension headers, VLAN tags, packets longer
 * than their length field can say, and malformed ones.
 */
#ifndef RECEIVE_WINDOW_SEGMENT_H
#define RECEIVE_WINDOW_SEGMENT_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "receive_window.h"
#include "receive_window_options.h"

#define MSS_ABSENT_IPV4 536	/* RFC 9293, 3.7.1 */
#define MSS_ABSENT_IPV6 1220

struct segment {
	struct ends ends;
	__u32 offset;		/* of the TCP header in the frame */
	__u32 bytes;		/* of data */
	struct tcphdr tcp;
	struct options options;
};

/* Returns the header in place, or copied if the frame is not linear; NULL if the frame is too short. */
static __always_inline const void *header_at(struct __sk_buff *skb, __u32 offset, void *copy, __u32 bytes)
{
	const void *at = (void *)(long)skb->data + offset;

	if (at + bytes <= (void *)(long)skb->data_end)
		return at;
	return bpf_skb_load_bytes(skb, offset, copy, bytes) < 0 ? NULL : copy;
}

static __always_inline bool read_tcp(struct __sk_buff *skb, __u32 bytes, struct segment *segment)
{
	struct tcphdr *tcp = &segment->tcp;
	const struct tcphdr *at;
	__u32 header;

	if (bytes < sizeof(*tcp) || segment->offset + bytes > skb->len)
		return false;
	at = header_at(skb, segment->offset, tcp, sizeof(*tcp));
	if (!at)
		return false;
	*tcp = *at;
	header = tcp->doff * 4;
	if (header < sizeof(*tcp) || header > bytes)
		return false;
	segment->bytes = bytes - header;
	return read_options(skb, segment->offset + sizeof(*tcp), header - sizeof(*tcp), &segment->options);
}

static __always_inline void map_ipv4(__u8 *mapped, __be32 address)
{
	__be32 *words = (void *)mapped;

	words[2] = bpf_htonl(0xffff);
	words[3] = address;
}

static __always_inline bool read_ipv4(struct __sk_buff *skb, bool to_terminal, struct segment *segment)
{
	struct pair *pair = &segment->ends.pair;
	__u32 header, bytes;
	struct iphdr copy;
	const struct iphdr *ip = header_at(skb, ETH_HLEN, &copy, sizeof(copy));

	if (!ip)
		return false;
	header = ip->ihl * 4;
	bytes = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || bytes < header || ip->protocol != IPPROTO_TCP)
		return false;
	if (ip->frag_off & bpf_htons(0x3fff))
		return false;
	map_ipv4(pair->terminal, to_terminal ? ip->daddr : ip->saddr);
	map_ipv4(pair->other, to_terminal ? ip->saddr : ip->daddr);
	segment->offset = ETH_HLEN + header;
	segment->options.syn_options.mss_bytes = MSS_ABSENT_IPV4;
	return read_tcp(skb, bytes - header, segment);
}

static __always_inline bool read_ipv6(struct __sk_buff *skb, bool to_terminal, struct segment *segment)
{
	struct pair *pair = &segment->ends.pair;
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return false;
	if (ip.version != 6 || ip.nexthdr != IPPROTO_TCP)
		return false;
	__builtin_memcpy(pair->terminal, to_terminal ? &ip.daddr : &ip.saddr, 16);
	__builtin_memcpy(pair->other, to_terminal ? &ip.saddr : &ip.daddr, 16);
	segment->offset = ETH_HLEN + sizeof(ip);
	segment->options.syn_options.mss_bytes = MSS_ABSENT_IPV6;
	return read_tcp(skb, bpf_ntohs(ip.payload_len), segment);
}

static __always_inline bool read_segment(struct __sk_buff *skb, bool to_terminal, struct segment *segment)
{
	struct ethhdr copy;
	const struct ethhdr *frame = header_at(skb, 0, &copy, sizeof(copy));
	bool is_read;

	if (!frame || skb->vlan_present)
		return false;
	if (frame->h_proto == bpf_htons(ETH_P_IP))
		is_read = read_ipv4(skb, to_terminal, segment);
	else if (frame->h_proto == bpf_htons(ETH_P_IPV6))
		is_read = read_ipv6(skb, to_terminal, segment);
	else
		return false;
	segment->ends.terminal_port = to_terminal ? segment->tcp.dest : segment->tcp.source;
	segment->ends.other_port = to_terminal ? segment->tcp.source : segment->tcp.dest;
	return is_read;
}

#endif
