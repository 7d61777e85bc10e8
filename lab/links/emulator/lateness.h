/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late packets left: the emulator's own error, which decides whether a run counts. Histogram buckets of 6 % keep
 * quantiles of any number of packets in a few kilobytes.
 */
#ifndef LATENESS_H
#define LATENESS_H

#include <stdint.h>

#define BUCKETS 512

struct lateness {
	uint64_t packets;
	uint64_t stalls;	/* packets later than the threshold */
	uint64_t max_us;
	uint64_t buckets[BUCKETS];
};

void lateness_note(struct lateness *lateness, int64_t late_ns, uint64_t stall_us);

/* Returns the upper edge, in microseconds, of the bucket that this share (0 to 1) does not exceed. */
uint64_t lateness_quantile(const struct lateness *lateness, double part);

#endif
