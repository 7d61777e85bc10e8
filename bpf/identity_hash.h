/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fast keyed hash of a whole packet: NH of UMAC (Black et al., CRYPTO 1999) with 64-bit products, then SipHash.
 *
 * Each pair of words (a, b) has two keys of its own (k, l). Two sums, modulo 2^64:
 *   plain     sum of (a + k) * (b + l)
 *   swapped   the same, with the bytes of both factors in reverse order
 * The low half of a product hardly depends on the high bits of its factors: in `plain` the last bytes of a word, in
 * `swapped` the first ones. Together they depend on every bit.
 *
 * Two different packets have equal sums with a probability of at most 2^-50 over the keys. Proof: take a pair that
 * differs, in a; fix all keys but l. Let y = b + l, and let byte 7 - i be the mirror of byte i.
 *   - `plain` is equal only for one value of the bytes of y below the mirror of the first byte of a + k that differs.
 *   - `swapped` is equal only for one value of the bytes above the mirror of the last byte that differs.
 *   - If both mirrors are the same byte, at least its lowest bit has one value.
 * So 57 bits of the random y have one value. If b differs too, one value for each of the 2^7 carry patterns of b + l.
 *
 * SipHash of the sums makes a packet's bucket unpredictable.
 */
#ifndef IDENTITY_HASH_H
#define IDENTITY_HASH_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include "packet.h"
#include "siphash.h"

#define PAYLOAD_MAX 2048	/* bytes; a power of two */
#define TAGS_MAX 2
#define PAIR_BYTES 16
#define CHUNK_PAIRS 4
#define CHUNK_BYTES (CHUNK_PAIRS * PAIR_BYTES)
#define OFFSET_MASK 127		/* above the length of all headers */
#define FRAME_MASK 4095		/* above the length of the headers and a payload */

/* Pairs of the payload, then those of the headers. A different length or kind changes the last one. */
enum pair {
	PAYLOAD_PAIRS = PAYLOAD_MAX / PAIR_BYTES,
	TAG_PAIRS = PAYLOAD_PAIRS,
	ADDRESS_PAIRS = TAG_PAIRS + TAGS_MAX,
	KIND_PAIR = ADDRESS_PAIRS + 2,
	PAIRS
};

const volatile __u64 pair_keys[2 * PAIRS];	/* random per run */

struct nh {
	__u64 plain, swapped;
};

static __always_inline void nh_take(struct nh *nh, __u32 pair, __u64 one, __u64 other)
{
	one += pair_keys[pair * 2];
	other += pair_keys[pair * 2 + 1];
	nh->plain += one * other;
	nh->swapped += __builtin_bswap64(one) * __builtin_bswap64(other);
	barrier_var(nh->plain); /* or clang interleaves pairs and spills registers */
	barrier_var(nh->swapped);
}

/* Returns false if the frame is shorter. Not inlined: the verifier then checks it once instead of once per header. */
__noinline int nh_take_payload(struct xdp_md *ctx, struct nh *nh, __u32 offset, __u32 bytes)
{
	struct rest rest = { .end = (void *)(long)ctx->data_end, .offset = offset };
	__u64 one = 0, other = 0;
	const __u64 *words;
	__u32 pair = 0, last = offset + bytes - 8;
	struct nh sums;

	if (!nh)
		return false;
	sums = *nh;
	rest.at = (void *)(long)ctx->data + (offset & OFFSET_MASK);
	for (; pair < PAYLOAD_PAIRS && bytes >= CHUNK_BYTES; pair += CHUNK_PAIRS) {
		words = advance(&rest, CHUNK_BYTES);
		if (!words)
			return false;
		for (int each = 0; each < CHUNK_PAIRS; each++)
			nh_take(&sums, pair + each, words[2 * each], words[2 * each + 1]);
		bytes -= CHUNK_BYTES;
	}
	for (int i = 0; i < CHUNK_PAIRS && bytes >= PAIR_BYTES; i++) {
		words = advance(&rest, PAIR_BYTES);
		if (!words)
			return false;
		nh_take(&sums, pair++ & (PAYLOAD_PAIRS - 1), words[0], words[1]);
		bytes -= PAIR_BYTES;
	}
	if (bytes >= 8) {
		words = advance(&rest, 8);
		if (!words)
			return false;
		one = *words;
		bytes -= 8;
	}
	if (bytes) { /* take the last 8 bytes, which overlap the previous word or the addresses */
		rest.at = (void *)(long)ctx->data + (last & FRAME_MASK);
		words = advance(&rest, 8);
		if (!words)
			return false;
		other = *words;
	}
	if (pair < PAYLOAD_PAIRS)
		nh_take(&sums, pair, one, other);
	*nh = sums;
	return true;
}

static __always_inline void nh_end(const struct nh *nh, const __u64 secret[2], __u64 hash[2])
{
	struct sip s;

	sip_begin(&s, secret);
	sip_take(&s, nh->plain);
	sip_take(&s, nh->swapped);
	sip_end_unseen(&s, hash);
}

#endif
