/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A frame read from its beginning, never past its end; and the Internet's checksum.
 */
#ifndef PACKET_H
#define PACKET_H

#include <linux/bpf.h>
#include <linux/ip.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

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

/* RFC 1624: a checksum after one of the words that it is over has changed. */
static __always_inline __sum16 mended(__sum16 check, __be16 before, __be16 after)
{
	return (__sum16)~folded((__u64)(__u16)~check + (__u16)~before + after);
}

#endif
