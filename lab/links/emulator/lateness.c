// SPDX-License-Identifier: Apache-2.0
/* See lateness.h. */
#include "lateness.h"

#define NS_PER_US 1000
#define STEPS 16	/* buckets per power of two; below the first they are exact */
#define STEP_BITS 4

static unsigned int bucket_of(uint64_t us)
{
	unsigned int exponent;

	if (us < STEPS)
		return (unsigned int)us;
	exponent = 63 - (unsigned int)__builtin_clzll(us);
	return (exponent - STEP_BITS + 1) * STEPS + ((us >> (exponent - STEP_BITS)) & (STEPS - 1));
}

static uint64_t upper_edge(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < STEPS)
		return bucket;
	shift = bucket / STEPS - 1;
	return ((uint64_t)(STEPS + bucket % STEPS + 1) << shift) - 1;
}

void lateness_note(struct lateness *lateness, int64_t late_ns, uint64_t stall_us)
{
	uint64_t us = late_ns > 0 ? (uint64_t)late_ns / NS_PER_US : 0;
	unsigned int bucket = bucket_of(us);

	lateness->packets++;
	lateness->stalls += us > stall_us;
	if (us > lateness->max_us)
		lateness->max_us = us;
	lateness->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

uint64_t lateness_quantile(const struct lateness *lateness, double part)
{
	uint64_t seen = 0;
	unsigned int bucket;

	for (bucket = 0; bucket < BUCKETS; bucket++) {
		seen += lateness->buckets[bucket];
		if (seen && (double)seen >= part * (double)lateness->packets)
			break;
	}
	if (bucket == BUCKETS)
		return 0;
	return upper_edge(bucket) < lateness->max_us ? upper_edge(bucket) : lateness->max_us;
}
