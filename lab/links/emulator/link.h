/* SPDX-License-Identifier: Apache-2.0 */
/* A link: two ports, a way in each direction, and the lateness of its packets. */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>

#include "lateness.h"
#include "pool.h"
#include "port.h"
#include "way.h"

enum { FORWARD, BACKWARD, DIRECTIONS };

struct link {
	struct port ports[DIRECTIONS];	/* a direction begins at the port of its number */
	struct way ways[DIRECTIONS];
	struct pool pool;
	struct lateness lateness;
	int64_t counted_since_ns;		/* of lateness */
	uint64_t stall_us;		/* a later packet: the machine stalled */
	bool open;
};

int64_t link_now(void);
void link_init(struct link *link, uint64_t stall_us);
void link_open(struct link *link);

/* Returns when the next packet is due, or NEVER. */
int64_t link_carry(struct link *link);

/* Returns the smaller delay of both directions. */
int64_t link_min_delay(const struct link *link);

#endif
