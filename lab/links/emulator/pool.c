// SPDX-License-Identifier: Apache-2.0
/* See pool.h. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"

#define SLAB_PACKETS 256
#define FIRST_SLABS 4

static void grow(struct pool *pool)
{
	struct packet *slab = malloc(SLAB_PACKETS * sizeof(*slab));

	if (!slab)
		fail("no memory for more packets");
	memset(slab, 0, SLAB_PACKETS * sizeof(*slab));
	for (unsigned int i = 0; i < SLAB_PACKETS; i++)
		pool_give(pool, &slab[i]);
}

void pool_init(struct pool *pool)
{
	pool->free = NULL;
	for (unsigned int i = 0; i < FIRST_SLABS; i++)
		grow(pool);
}

struct packet *pool_take(struct pool *pool)
{
	struct packet *packet;

	if (!pool->free)
		grow(pool);
	packet = pool->free;
	pool->free = packet->next;
	return packet;
}

void pool_give(struct pool *pool, struct packet *packet)
{
	packet->next = pool->free;
	pool->free = packet;
}
