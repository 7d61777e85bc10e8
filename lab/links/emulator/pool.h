/* SPDX-License-Identifier: Apache-2.0 */
/* Room for packets, allocated in slabs and never freed: no page fault when a packet is due. */
#ifndef POOL_H
#define POOL_H

#include "way.h"

struct pool {
	struct packet *free;
};

void pool_init(struct pool *pool);
struct packet *pool_take(struct pool *pool);
void pool_give(struct pool *pool, struct packet *packet);

#endif
