/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SipHash-1-3 with a 128-bit result: one round per word, three at the end.
 */
#ifndef SIPHASH_H
#define SIPHASH_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

struct sip {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotate_left(__u64 x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotate_left(s->v1, 13) ^ s->v0;
	s->v0 = rotate_left(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate_left(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate_left(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate_left(s->v1, 17) ^ s->v2;
	s->v2 = rotate_left(s->v2, 32);
}

static __always_inline void sip_begin(struct sip *s, const __u64 secret[2])
{
	s->v0 = secret[0] ^ 0x736f6d6570736575ULL;
	s->v1 = secret[1] ^ 0x646f72616e646f6dULL ^ 0xee;
	s->v2 = secret[0] ^ 0x6c7967656e657261ULL;
	s->v3 = secret[1] ^ 0x7465646279746573ULL;
}

static __always_inline void sip_take(struct sip *s, __u64 word)
{
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

static __always_inline void sip_end(struct sip *s, __u64 hash[2])
{
	s->v2 ^= 0xee;
	for (int i = 0; i < 3; i++)
		sip_round(s);
	hash[0] = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
	s->v1 ^= 0xdd;
	for (int i = 0; i < 3; i++)
		sip_round(s);
	hash[1] = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* A 128-bit result after three rounds instead of six, for hashes that stay secret: it shows more of the state. */
static __always_inline void sip_end_unseen(struct sip *s, __u64 hash[2])
{
	s->v2 ^= 0xee;
	for (int i = 0; i < 3; i++)
		sip_round(s);
	hash[0] = s->v0 ^ s->v1;
	hash[1] = s->v2 ^ s->v3;
}

#endif
