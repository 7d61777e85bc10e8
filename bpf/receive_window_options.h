/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The options of a TCP header, in any order.
 */
#ifndef RECEIVE_WINDOW_OPTIONS_H
#define RECEIVE_WINDOW_OPTIONS_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "receive_window.h"

#define OPTIONS_BYTES_MAX 40
#define OPTION_END 0
#define OPTION_NONE 1
#define OPTION_MSS 2
#define OPTION_SCALE 3
#define OPTION_TIMESTAMPS 8
#define OPTION_MPTCP 30
#define MP_CAPABLE 0
#define MP_JOIN 1
#define MP_DSS 2
#define DSS_HAS_ACK 1
#define DSS_LONG_ACK 2
#define SCALE_MOST 14		/* RFC 7323, 2.3 */
#define TIMESTAMPS_ALONE 0x0101080a	/* NOP, NOP, timestamps: the options of nearly every segment */

struct options {
	__u8 raw[64] __attribute__((aligned(8)));	/* any 6-bit index is in bounds */
	__u32 at, bytes;
	__u32 value, echo;	/* timestamps */
	__u32 data_ack;		/* the lower 32 bits of MPTCP's data ACK */
	bool has_data_ack;
	struct syn_options syn_options;
};

static __always_inline __u32 word(const __u8 *raw, __u32 at)
{
	return raw[at & 63] << 24 | raw[(at + 1) & 63] << 16 | raw[(at + 2) & 63] << 8 | raw[(at + 3) & 63];
}

static __always_inline void read_mptcp(struct options *options, __u32 at, __u32 length)
{
	__u32 subtype, flags;

	if (length < 3)
		return;
	subtype = options->raw[(at + 2) & 63] >> 4;
	if (subtype == MP_CAPABLE)
		options->syn_options.capable = 1;
	if (subtype == MP_JOIN)
		options->syn_options.joined = 1;
	if (subtype != MP_DSS || length < 8)
		return;
	flags = options->raw[(at + 3) & 63];
	if (!(flags & DSS_HAS_ACK) || (flags & DSS_LONG_ACK && length < 12))
		return;
	options->data_ack = word(options->raw, flags & DSS_LONG_ACK ? at + 8 : at + 4);
	options->has_data_ack = true;
}

/* Callback of bpf_loop; 1 ends the loop. */
static long read_option(__u32 turn, void *data)
{
	struct options *options = data;
	const __u8 *raw = options->raw;
	__u32 at = options->at, kind, length;

	(void)turn;
	if (at >= options->bytes)
		return 1;
	at &= 63;
	barrier_var(at);
	kind = raw[at & 63];
	if (kind == OPTION_END)
		return 1;
	if (kind == OPTION_NONE) {
		options->at = at + 1;
		return 0;
	}
	length = raw[(at + 1) & 63];
	if (length < 2 || at + length > options->bytes)
		return 1;
	options->at = at + length;
	if (kind == OPTION_MSS && length == 4) {
		options->syn_options.mss_bytes = raw[(at + 2) & 63] << 8 | raw[(at + 3) & 63];
	} else if (kind == OPTION_SCALE && length == 3) {
		options->syn_options.has_scale = 1;
		options->syn_options.scale = raw[(at + 2) & 63];
		if (options->syn_options.scale > SCALE_MOST)
			options->syn_options.scale = SCALE_MOST;
	} else if (kind == OPTION_TIMESTAMPS && length == 10) {
		options->syn_options.has_timestamps = 1;
		options->value = word(raw, at + 2);
		options->echo = word(raw, at + 6);
	} else if (kind == OPTION_MPTCP) {
		read_mptcp(options, at, length);
	}
	return 0;
}

/* Returns false if the options cannot be read. */
static __always_inline bool read_options(struct __sk_buff *skb, __u32 offset, __u32 bytes, struct options *options)
{
	barrier_var(bytes);
	if (!bytes)
		return true;
	if (bytes > OPTIONS_BYTES_MAX || bpf_skb_load_bytes(skb, offset, options->raw, bytes) < 0)
		return false;
	if (bytes == 12 && word(options->raw, 0) == TIMESTAMPS_ALONE) {
		options->syn_options.has_timestamps = 1;
		options->value = word(options->raw, 4);
		options->echo = word(options->raw, 8);
		return true;
	}
	options->bytes = bytes;
	bpf_loop(OPTIONS_BYTES_MAX, read_option, options, 0);
	return true;
}

#endif
