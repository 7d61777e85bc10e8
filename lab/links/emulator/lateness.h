/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much later than due packets left: the emulator's own error, by which an experiment knows whether to believe
 * a run. A histogram of 6 % wide buckets, so that a quantile of any number of packets costs a few kilobytes.
 */
#ifndef LATENESS_H
#define LATENESS_H

#include <stdint.h>

#define BUCKETS 512

struct lateness {
	uint64_t packets;
	uint64_t stalls;	/* packets that were later than the threshold */
	uint64_t max_us;
	uint64_t buckets[BUCKETS];
};

void lateness_note(struct lateness *lateness, int64_t late_ns, uint64_t stall_us);

/* The upper edge of the bucket below which this part (0 to 1) of the packets lies, in microseconds. */
uint64_t lateness_quantile(const struct lateness *lateness, double part);

#endif
