/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a link in virtual time, without socket or clock.
 *
 *   arrive ── loss ── queue, emptied at the rate ── delay ──► leave
 *                      ▲ cross traffic, which takes time and is not delivered
 *
 * All times are nanoseconds of the caller's clock. Packets stay in order.
 *
 * Two shared directions take turns on one channel, packet by packet, like stations and their access point. Each sender
 * (by MAC) beyond the first with packets waiting, in either direction, costs a share of the rate.
 */
#ifndef WAY_H
#define WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "senders.h"

#define NEVER INT64_MAX

struct shape {
	uint64_t rate_bps;	/* 0: no limit */
	uint64_t queue_bytes;	/* includes the packet being sent */
	int64_t delay_ns;
	int64_t jitter_ns;	/* added, uniform from 0 */
	double loss;		/* chance per packet, 0 to 1 like all below */
	/* Gilbert-Elliott: chances per packet to turn bad and good, and each state's loss. */
	double p, r;
	double loss_good, loss_bad;
	uint64_t shared;	/* 0 or 1: takes turns if the other direction is shared too */
	double contention;	/* share of the rate that each further sender costs; a tenth of the rate remains */
	double others;		/* cross traffic's share of the rate, in full Ethernet frames */
};

/* Ethernet's 1514 bytes, a VLAN tag, and room for a slightly larger MTU. */
#define FRAME_MAX 2000

struct packet {
	struct packet *next;
	int64_t at_ns;		/* of arrival; in the delay line: of departure */
	int64_t behind_ns;	/* cross traffic between the previous packet and this one */
	uint32_t bytes;
	uint32_t room;		/* unused bytes before the frame, in `frame` */
	uint32_t sender;	/* place in senders, while queued */
	unsigned char frame[FRAME_MAX];
};

struct fifo {
	struct packet *first;
	struct packet **end;
};

struct counters {
	uint64_t in_packets, in_bytes;
	uint64_t out_packets, out_bytes;
	uint64_t lost_packets;		/* at random */
	uint64_t dropped_packets;	/* the queue was full */
};

struct way {
	struct shape shape;
	struct counters counters;
	struct way *other;		/* or NULL */
	struct senders senders;		/* of the packets in the queue */
	struct fifo queue;		/* waits for the rate */
	struct fifo line;		/* delay line: sent */
	uint64_t queued_bytes;
	uint64_t line_packets;
	int64_t free_ns;		/* the previous packet's last bit left */
	int64_t last_due_ns;
	int64_t cross_traffic_ns;		/* next arrival of cross traffic */
	uint64_t random_state;
	bool bad;			/* state of the Gilbert-Elliott channel */
};

void way_init(struct way *way, uint64_t seed);

/* Queued packets stay; packets in the delay line keep their times. */
void way_shape(struct way *way, const struct shape *shape, int64_t now_ns);

/* Returns false if the packet is lost: the caller keeps it. */
bool way_arrive(struct way *way, struct packet *packet, int64_t now_ns);

/* Returns when way_leave() has a packet, or NEVER; jitter may make it later. */
int64_t way_due(const struct way *way);

/* Returns the next due packet, and when it was due, or NULL. */
struct packet *way_leave(struct way *way, int64_t now_ns, int64_t *due_ns);

#endif
