// SPDX-License-Identifier: Apache-2.0
/* See senders.h. */
#include "senders.h"

#include <string.h>

uint32_t senders_join(struct senders *senders, const unsigned char *mac)
{
	uint32_t place = SENDERS_MAX - 1;

	for (uint32_t i = SENDERS_MAX; i-- > 0;) {
		if (!senders->waiting[i]) {
			place = i;
		} else if (memcmp(senders->macs[i], mac, MAC_BYTES) == 0) {
			senders->waiting[i]++;
			return i;
		}
	}
	if (!senders->waiting[place]) {
		memcpy(senders->macs[place], mac, MAC_BYTES);
		senders->count++;
	}
	senders->waiting[place]++;
	return place;
}

void senders_leave(struct senders *senders, uint32_t place)
{
	if (--senders->waiting[place] == 0)
		senders->count--;
}
