/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a link, in virtual time: what it does to packets, without a socket and without a clock.
 *
 *   arrive ── loss ── queue, emptied at the rate ── delay ──► leave
 *                      ▲ others' packets, which are nobody's and take their time
 *
 * All times are nanoseconds of one clock, which the caller reads. The order of packets is kept.
 *
 * Two directions that are both shared send in turns on one channel, packet by packet where both have one waiting, like
 * the stations of a radio cell and their access point. Who has nothing waiting does not contend: so for each sender (by
 * its MAC) beyond the first that has something waiting for the channel, in either direction, a part of the rate is lost.
 */
#ifndef WAY_H
#define WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "senders.h"

#define NEVER INT64_MAX

struct shape {
	uint64_t rate_bps;	/* 0: as fast as it goes */
	uint64_t queue_bytes;	/* what may wait for the rate, the packet that is being sent among it */
	int64_t delay_ns;
	int64_t jitter_ns;	/* added to the delay, uniform from 0 to this */
	double loss;		/* of each packet by its own throw of the dice; from 0 to 1, like all below */
	/* Gilbert-Elliott: for each packet, the chance to go from good to bad and back, and the loss in either state. */
	double p, r;
	double loss_good, loss_bad;
	uint64_t shared;	/* 0, or 1: takes turns with the other direction, when that is shared, too */
	double contention;	/* the part of the rate that each further sender takes; a tenth of the rate remains */
	double others;		/* the part of the rate that others' packets take, each as long as Ethernet has them */
};

/* Ethernet's 1514 bytes, a VLAN tag, and room for whoever raises the MTU a little. */
#define FRAME_MAX 2000

struct packet {
	struct packet *next;
	int64_t at_ns;		/* when it arrived; in the line: when it is due */
	int64_t behind_ns;	/* what others' packets take that arrived after the one before it, and before it */
	uint32_t bytes;
	uint32_t room;		/* unused bytes before the frame, in `frame` */
	uint32_t sender;	/* its place among the senders, while in the queue */
	unsigned char frame[FRAME_MAX];
};

struct fifo {
	struct packet *first;
	struct packet **end;
};

struct counters {
	uint64_t in_packets, in_bytes;
	uint64_t out_packets, out_bytes;
	uint64_t lost_packets;		/* by the dice */
	uint64_t dropped_packets;	/* the queue was full */
};

struct way {
	struct shape shape;
	struct counters counters;
	struct way *other;		/* the other direction; NULL: there is none */
	struct senders senders;		/* of what is in the queue */
	struct fifo queue;		/* waits for the rate */
	struct fifo line;		/* has been sent, and waits for its delay to pass */
	uint64_t queued_bytes;
	uint64_t line_packets;
	int64_t free_ns;		/* when the last bit of the packet before left */
	int64_t last_due_ns;
	int64_t others_ns;		/* when the next packet of others arrives */
	uint64_t dice;
	bool bad;			/* the state of Gilbert and Elliott's channel */
};

void way_init(struct way *way, uint64_t seed);

/* From now on; what is queued stays, and what is in the line keeps its time. */
void way_shape(struct way *way, const struct shape *shape, int64_t now_ns);

/* False when the packet is lost or dropped; it then stays the caller's. */
bool way_arrive(struct way *way, struct packet *packet, int64_t now_ns);

/* When way_leave() will next have a packet, or NEVER; with jitter it may be somewhat later. */
int64_t way_due(const struct way *way);

/* The next packet that is due by now, with the time at which it was due; NULL when there is none. */
struct packet *way_leave(struct way *way, int64_t now_ns, int64_t *due_ns);

#endif
