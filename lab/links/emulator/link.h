/* SPDX-License-Identifier: Apache-2.0 */
/* A whole link: two ends, a way in each direction, and how late packets left. */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>

#include "lateness.h"
#include "pool.h"
#include "port.h"
#include "way.h"

enum { FORWARD, BACKWARD, DIRECTIONS };

struct link {
	struct port ports[DIRECTIONS];	/* a direction begins at the port of its number and ends at the other */
	struct way ways[DIRECTIONS];
	struct pool pool;
	struct lateness lateness;
	int64_t asked_ns;		/* since when lateness has been counted */
	uint64_t stall_us;		/* a packet that is later means that the machine stalled */
	bool open;
};

int64_t link_now(void);
void link_init(struct link *link, uint64_t stall_us);
void link_open(struct link *link);

/* Reads what has come and writes what is due; returns when the next packet is due, or NEVER. */
int64_t link_carry(struct link *link);

/* Of both directions. */
int64_t link_least_delay(const struct link *link);

#endif
