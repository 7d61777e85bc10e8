/* SPDX-License-Identifier: Apache-2.0 */
/* MAC addresses that have packets waiting, and how many. */
#ifndef SENDERS_H
#define SENDERS_H

#include <stdint.h>

#define SENDERS_MAX 64
#define MAC_BYTES 6

struct senders {
	unsigned char macs[SENDERS_MAX][MAC_BYTES];
	uint32_t waiting[SENDERS_MAX];
	unsigned int count;	/* number of senders with packets waiting */
};

/* Returns the place for senders_leave(). Senders without a place share the last. */
uint32_t senders_join(struct senders *senders, const unsigned char *mac);
void senders_leave(struct senders *senders, uint32_t place);

#endif
