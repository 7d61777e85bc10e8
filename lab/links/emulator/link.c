// SPDX-License-Identifier: Apache-2.0
/* See link.h. */
#include "link.h"

#include <sys/random.h>
#include <time.h>

#include "fail.h"

#define NS_PER_S 1000000000LL

static const char *const devices[DIRECTIONS] = { "near", "far" };

int64_t link_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NS_PER_S + time.tv_nsec;
}

void link_init(struct link *link, uint64_t stall_us)
{
	uint64_t seeds[DIRECTIONS];

	if (getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds))
		fail("no random numbers");
	*link = (struct link){ .stall_us = stall_us, .counted_since_ns = link_now() };
	pool_init(&link->pool);
	for (unsigned int i = 0; i < DIRECTIONS; i++) {
		way_init(&link->ways[i], seeds[i]);
		link->ways[i].other = &link->ways[!i];
		link->ports[i].fd = -1;
	}
}

void link_open(struct link *link)
{
	for (unsigned int i = 0; i < DIRECTIONS; i++)
		port_open(&link->ports[i], devices[i], &link->pool);
	link->open = true;
}

static void receive(struct link *link, unsigned int direction)
{
	struct packet *packets[BATCH];
	unsigned int count;

	do {
		count = port_read(&link->ports[direction], &link->pool, packets);
		for (unsigned int i = 0; i < count; i++) {
			if (!way_arrive(&link->ways[direction], packets[i], packets[i]->at_ns))
				pool_give(&link->pool, packets[i]);
		}
	} while (count == BATCH);
}

static void transmit(struct link *link, unsigned int direction)
{
	struct packet *packets[BATCH];
	unsigned int count;

	do {
		int64_t now = link_now();
		int64_t due;

		for (count = 0; count < BATCH; count++) {
			packets[count] = way_leave(&link->ways[direction], now, &due);
			if (!packets[count])
				break;
			lateness_note(&link->lateness, now - due, link->stall_us);
		}
		port_write(&link->ports[!direction], packets, count);
		for (unsigned int i = 0; i < count; i++)
			pool_give(&link->pool, packets[i]);
	} while (count == BATCH);
}

int64_t link_carry(struct link *link)
{
	int64_t next = NEVER;

	if (!link->open)
		return next;
	for (unsigned int i = 0; i < DIRECTIONS; i++)
		receive(link, i);
	for (unsigned int i = 0; i < DIRECTIONS; i++)
		transmit(link, i);
	for (unsigned int i = 0; i < DIRECTIONS; i++) {
		int64_t due = way_due(&link->ways[i]);

		next = due < next ? due : next;
	}
	return next;
}

int64_t link_min_delay(const struct link *link)
{
	int64_t there = link->ways[FORWARD].shape.delay_ns;
	int64_t back = link->ways[BACKWARD].shape.delay_ns;

	return there < back ? there : back;
}
