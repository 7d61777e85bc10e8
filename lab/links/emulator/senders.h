/* SPDX-License-Identifier: Apache-2.0 */
/* Who has packets waiting: a small table of MACs, each with the number of its packets. */
#ifndef SENDERS_H
#define SENDERS_H

#include <stdint.h>

#define SENDERS_MAX 64
#define MAC_BYTES 6

struct senders {
	unsigned char macs[SENDERS_MAX][MAC_BYTES];
	uint32_t waiting[SENDERS_MAX];
	unsigned int count;	/* of those that have any */
};

/* A packet of this sender begins to wait; its place, for senders_leave(). Beyond the last place all share that one. */
uint32_t senders_join(struct senders *senders, const unsigned char *mac);
void senders_leave(struct senders *senders, uint32_t place);

#endif
