/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes senders use packets that fit a narrower link behind this port. TCP: lowers the MSS option of both SYNs. Packets
 * that are still too long get an ICMP answer with the MTU (RFC 1191, RFC 8201). Nothing is fragmented.
 *
 * The agent sends the answers (agent/portxdp/answer.go) to packets that are dropped here: not every device has XDP_TX,
 * and a veth loses such frames if its peer has no NAPI.
 *
 * Packets that must not be answered pass unchanged (RFC 1122, 3.2.2; RFC 4443, 2.4): ICMP errors, later fragments,
 * multicast, packets without a valid source, link-local ones. So do malformed packets, tagged ones, and offload bundles
 * (GRO), whose packets may be short enough.
 */
#ifndef PACKET_SIZE_H
#define PACKET_SIZE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "terminal_port.h"
#include "packet.h"

#define ANSWER_INTERVAL_NS 1000000ULL	/* 1,000 a second per port */
#define ANSWER_BURST_NS 100000000ULL		/* burst: the answers of this time */
#define QUOTED_BYTES_IPV4 548		/* RFC 1812, 4.3.2.3: an answer has at most 576 bytes */
#define MIN_MTU_IPV6 1280		/* minimum MTU of a link (RFC 8200, 5); no answer states less */
#define EXTENSIONS_MAX 6

#define TCP_BYTES 20
#define TCP_BYTES_MAX 60
#define OPTION_END 0
#define OPTION_NONE 1
#define OPTION_MSS 2
#define OPTION_MSS_BYTES 4

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} told SEC(".maps");

/* What follows an IP header. */
struct inner {
	__u32 offset, bytes;	/* in the frame */
	__u16 pseudo;		/* folded sum of the pseudo header (RFC 9293, 3.1) */
	__u8 protocol;
	bool rewritable;	/* complete and not signed by IPsec */
};

/* Drops a packet that is too long and hands it to the agent for an answer, within the rate limit. */
static __always_inline bool report_too_long(struct xdp_md *ctx, struct port *port, __u32 quoted)
{
	__u64 now_ns = bpf_ktime_get_ns(), due_ns = port->due_ns;
	struct told *one;

	if (due_ns > now_ns + ANSWER_BURST_NS)
		return true;
	port->due_ns = (due_ns > now_ns ? due_ns : now_ns) + ANSWER_INTERVAL_NS; /* not atomic: two CPUs may exceed the limit by one */
	one = bpf_ringbuf_reserve(&told, sizeof(*one), 0);
	if (!one)
		return true;
	one->device = ctx->ingress_ifindex;
	one->largest_bytes = port->largest_bytes;
	one->bytes = ETH_HLEN + quoted;
	if (bpf_xdp_load_bytes(ctx, 0, one->frame, ETH_HLEN + quoted) < 0) {
		bpf_ringbuf_discard(one, 0);
		return false;
	}
	bpf_ringbuf_submit(one, 0);
	return true;
}

/* A unicast address that is not link-local. */
static __always_inline bool is_reachable_ipv4(__be32 address)
{
	__u32 a = bpf_ntohl(address);

	return a >> 24 && a >> 24 != 127 && a >> 28 < 14 && a >> 16 != 0xa9fe;
}

static __always_inline bool is_reachable_ipv6(const struct in6_addr *address)
{
	const __be32 *a = address->in6_u.u6_addr32;
	__u32 begin = bpf_ntohl(a[0]);

	return (a[0] || a[1] || a[2]) && begin >> 24 != 0xff && begin >> 22 != 0xfe80 >> 6;
}

static __always_inline bool is_error_ipv4(struct xdp_md *ctx, __u32 offset)
{
	__u8 type;

	if (bpf_xdp_load_bytes(ctx, offset, &type, sizeof(type)) < 0)
		return true;
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12; /* RFC 1122, 3.2.2 */
}

static __always_inline bool is_error_ipv6(struct xdp_md *ctx, __u32 offset)
{
	__u8 type;

	return bpf_xdp_load_bytes(ctx, offset, &type, sizeof(type)) < 0 || type < 128 || type == 137; /* errors, and redirects (137) */
}

/* Returns true if the packet is dropped. Otherwise fills `inner`; protocol 0 ends the inspection. */
static __always_inline bool fit_ipv4(struct xdp_md *ctx, struct rest rest, struct port *port, struct inner *inner)
{
	const struct iphdr *ip = advance(&rest, sizeof(*ip));
	__u32 header, bytes;

	if (!ip || ip->version != 4)
		return false;
	header = ip->ihl * 4;
	bytes = bpf_ntohs(ip->tot_len);
	if (header < sizeof(*ip) || bytes < header || rest.end - (const void *)ip < bytes || bytes > port->longest_bytes)
		return false;
	if (!is_sound(ip, rest, header - sizeof(*ip)))
		return false;
	if (bytes > port->largest_bytes) {
		if (ip->frag_off & bpf_htons(0x1fff) || !is_reachable_ipv4(ip->saddr) || !is_reachable_ipv4(ip->daddr))
			return false;
		if (ip->protocol == IPPROTO_ICMP && is_error_ipv4(ctx, ETH_HLEN + header))
			return false;
		return report_too_long(ctx, port, QUOTED_BYTES_IPV4);
	}
	inner->offset = ETH_HLEN + header;
	inner->bytes = bytes - header;
	inner->pseudo = fold_sum((__u64)ip->saddr + ip->daddr + bpf_htons(ip->protocol) + bpf_htons(inner->bytes));
	inner->protocol = ip->protocol;
	inner->rewritable = !(ip->frag_off & bpf_htons(0x3fff));
	return false;
}

/* Returns false for later fragments and for more than EXTENSIONS_MAX extension headers. */
static __always_inline bool skip_extensions(struct xdp_md *ctx, struct inner *inner)
{
	__u8 extension[4];
	__u32 bytes;

	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		switch (inner->protocol) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_DSTOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_FRAGMENT:
		case IPPROTO_AH:
			break;
		default:
			return true;
		}
		if (inner->bytes < 8 || bpf_xdp_load_bytes(ctx, inner->offset, extension, sizeof(extension)) < 0)
			return false;
		bytes = (extension[1] + 1) * 8;
		if (inner->protocol == IPPROTO_AH)
			bytes = (extension[1] + 2) * 4;
		if (inner->protocol == IPPROTO_FRAGMENT) {
			bytes = 8;
			if (extension[2] || extension[3] & 0xf8)
				return false;
		}
		if (bytes > inner->bytes)
			return false;
		/* With a routing header the pseudo header has another destination. */
		if (inner->protocol != IPPROTO_HOPOPTS && inner->protocol != IPPROTO_DSTOPTS)
			inner->rewritable = false;
		inner->protocol = extension[0];
		inner->offset += bytes;
		inner->bytes -= bytes;
	}
	return false;
}

static __always_inline bool fit_ipv6(struct xdp_md *ctx, struct rest rest, struct port *port, struct inner *inner)
{
	const struct ipv6hdr *ip = advance(&rest, sizeof(*ip));
	__u32 payload, bytes;
	__u64 sum = 0;

	if (!ip || ip->version != 6)
		return false;
	payload = bpf_ntohs(ip->payload_len);
	bytes = payload + sizeof(*ip);
	if (!payload || rest.end - rest.at < payload || bytes > port->longest_bytes)
		return false;
	inner->offset = ETH_HLEN + sizeof(*ip);
	inner->bytes = payload;
	inner->rewritable = true;
	inner->protocol = ip->nexthdr;
	if (!skip_extensions(ctx, inner)) {
		inner->rewritable = false;
		return false;
	}
	if (bytes > port->largest_bytes && bytes > MIN_MTU_IPV6) {
		if (!is_reachable_ipv6(&ip->saddr) || !is_reachable_ipv6(&ip->daddr))
			return false;
		if (inner->protocol == IPPROTO_ICMPV6 && is_error_ipv6(ctx, inner->offset))
			return false;
		return report_too_long(ctx, port, QUOTED_BYTES);
	}
	for (int i = 0; i < 4; i++)
		sum += (__u64)ip->saddr.in6_u.u6_addr32[i] + ip->daddr.in6_u.u6_addr32[i];
	inner->pseudo = fold_sum(sum + bpf_htons(inner->protocol) + bpf_htons(inner->bytes));
	return false;
}

static __always_inline __be16 swap_if_odd(__be16 word, __u32 where)
{
	return where & 1 ? __builtin_bswap16(word) : word;
}

/* A TCP header and the scan of its options. */
struct options {
	__u8 header[TCP_BYTES_MAX + 4] __attribute__((aligned(8)));
	__u32 at, bytes;
	__u32 most;
	bool unfinished, lowered;
};

/* Callback of bpf_loop; 1 ends the loop. */
static long scan_option(__u32 turn, void *data)
{
	struct options *options = data;
	__u8 *header = options->header;
	struct tcphdr *tcp = (void *)header;
	__u32 at = options->at, kind, length, advertised;

	(void)turn;
	if (at + OPTION_MSS_BYTES > options->bytes)
		return 1;
	at &= 63;
	barrier_var(at);
	kind = header[at & 63];
	if (kind == OPTION_END)
		return 1;
	if (kind == OPTION_NONE) {
		options->at = at + 1;
		return 0;
	}
	length = header[(at + 1) & 63];
	if (length < 2)
		return 1;
	options->at = at + length;
	if (kind != OPTION_MSS || length != OPTION_MSS_BYTES)
		return 0;
	advertised = header[(at + 2) & 63] << 8 | header[(at + 3) & 63];
	if (advertised <= options->most)
		return 0;
	if (!options->unfinished)
		tcp->check = update_checksum(tcp->check, swap_if_odd(bpf_htons(advertised), at), swap_if_odd(bpf_htons(options->most), at));
	header[(at + 2) & 63] = options->most >> 8;
	header[(at + 3) & 63] = options->most;
	options->lowered = true;
	return 0;
}

/* The MSS is the largest packet without its headers. */
static __always_inline void lower_mss(struct xdp_md *ctx, const struct inner *inner, __u32 most)
{
	struct options options = { .at = TCP_BYTES, .most = most };
	struct tcphdr *tcp = (void *)options.header;
	__u32 bytes;

	if (inner->bytes < TCP_BYTES || bpf_xdp_load_bytes(ctx, inner->offset, options.header, TCP_BYTES) < 0 || !tcp->syn)
		return;
	bytes = tcp->doff * 4;
	if (bytes <= TCP_BYTES || bytes > inner->bytes)
		return;
	if (bpf_xdp_load_bytes(ctx, inner->offset, options.header, bytes) < 0)
		return;
	options.bytes = bytes;
	options.unfinished = tcp->check == inner->pseudo; /* checksum offload: the NIC completes it */
	bpf_loop(TCP_BYTES_MAX - TCP_BYTES, scan_option, &options, 0);
	if (options.lowered)
		bpf_xdp_store_bytes(ctx, inner->offset, options.header, bytes);
}

/* Returns true if the packet is too long and must be dropped. */
static __always_inline bool fit(struct xdp_md *ctx, struct port *port)
{
	struct rest rest = { .at = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end };
	const struct ethhdr *frame = advance(&rest, sizeof(*frame));
	struct inner inner = {};
	__u32 headers;

	if (!frame || (frame->h_dest[0] | frame->h_source[0]) & 1)
		return false;
	if (frame->h_proto == bpf_htons(ETH_P_IP)) {
		headers = sizeof(struct iphdr) + TCP_BYTES;
		if (fit_ipv4(ctx, rest, port, &inner))
			return true;
	} else if (frame->h_proto == bpf_htons(ETH_P_IPV6)) {
		headers = sizeof(struct ipv6hdr) + TCP_BYTES;
		if (fit_ipv6(ctx, rest, port, &inner))
			return true;
	} else {
		return false;
	}
	if (inner.rewritable && inner.protocol == IPPROTO_TCP)
		lower_mss(ctx, &inner, port->largest_bytes - headers);
	return false;
}

#endif
