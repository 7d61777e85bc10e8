/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A bounded cursor over a frame, and the Internet checksum.
 */
#ifndef PACKET_H
#define PACKET_H

#include <linux/bpf.h>
#include <linux/ip.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

/* The part of a frame that is not read yet. */
struct rest {
	const void *at, *end;
	__u32 offset;	/* of `at` */
};

static __always_inline const void *advance(struct rest *rest, __u32 bytes)
{
	const void *at = rest->at;

	barrier_var(at); /* or clang turns the next line into a loop count, for which the verifier knows no bound */
	if (at + bytes > rest->end)
		return NULL;
	rest->at = at + bytes;
	rest->offset += bytes;
	return at;
}

static __always_inline __u16 fold_sum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Checks an IPv4 header checksum (RFC 1071). */
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
		word = advance(&options, 4);
		if (!word)
			return false;
		sum += *word;
		bytes -= 4;
	}
	return fold_sum(sum) == 0xffff;
}

/* Updates a checksum after one of its words changed (RFC 1624). */
static __always_inline __sum16 update_checksum(__sum16 check, __be16 before, __be16 after)
{
	return (__sum16)~fold_sum((__u64)(__u16)~check + (__u16)~before + after);
}

#endif
