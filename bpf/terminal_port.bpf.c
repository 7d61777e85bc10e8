// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Handles packets of terminals before the gateway's bridge sees them (XDP at the terminals' ports). A device takes one
 * XDP program, so this one combines both functions, enabled per port: IPv4 identification (ipv4_id.h) and MTU (packet_size.h).
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "packet_size.h"
#include "terminal_port.h"
#include "packet.h"
#include "ipv4_id.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PORTS_MAX);
	__type(key, __u32);
	__type(value, struct port);
} ports SEC(".maps");

SEC("xdp")
int inside(struct xdp_md *ctx)
{
	__u32 device = ctx->ingress_ifindex;
	struct port *port = bpf_map_lookup_elem(&ports, &device);

	if (!port)
		return XDP_PASS;
	if (port->largest_bytes && fit(ctx, port))
		return XDP_DROP;
	if (port->number)
		set_identification(ctx);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
