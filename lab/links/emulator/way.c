// SPDX-License-Identifier: Apache-2.0
/* See way.h. */
#include "way.h"

#include <math.h>
#include <stddef.h>

#define NS_PER_S 1000000000.0
/* 200 Mbit/s over half a second: limits a link without a rate. */
#define LINE_MAX_PACKETS 16384
#define MIN_RATE_SHARE 0.1	/* of the rate, whatever the contention */
#define SOURCE_MAC_OFFSET 6	/* in an Ethernet frame */
#define CROSS_TRAFFIC_BYTES 1514
#define CROSS_TRAFFIC_LOOKBACK 4000	/* packet times: earlier cross traffic has left */

static void append(struct fifo *fifo, struct packet *packet)
{
	packet->next = NULL;
	*fifo->end = packet;
	fifo->end = &packet->next;
}

static struct packet *pop(struct fifo *fifo)
{
	struct packet *packet = fifo->first;

	fifo->first = packet->next;
	if (!fifo->first)
		fifo->end = &fifo->first;
	return packet;
}

/* xorshift64*: uniform in [0, 1). */
static double random_unit(struct way *way)
{
	way->random_state ^= way->random_state >> 12;
	way->random_state ^= way->random_state << 25;
	way->random_state ^= way->random_state >> 27;
	return (double)((way->random_state * 0x2545f4914f6cdd1dULL) >> 11) / 9007199254740992.0; /* 2^53 */
}

static int64_t sending_ns(const struct shape *shape, uint32_t bytes, double part)
{
	return shape->rate_bps ? (int64_t)(bytes * 8.0 * NS_PER_S / ((double)shape->rate_bps * part)) : 0;
}

static bool is_shared(const struct way *way)
{
	return way->other && way->shape.shared && way->other->shape.shared;
}

static double rate_share(const struct way *way)
{
	unsigned int contending = way->senders.count + (is_shared(way) ? way->other->senders.count : 0);
	double left = contending ? 1 - way->shape.contention * (contending - 1) : 1;

	return left > MIN_RATE_SHARE ? left : MIN_RATE_SHARE;
}

/* Returns when the queue's first packet could begin. */
static int64_t start_ns(const struct way *way)
{
	int64_t free_ns = way->free_ns;

	if (is_shared(way) && way->other->free_ns > free_ns)
		free_ns = way->other->free_ns;
	free_ns += way->queue.first->behind_ns;
	return way->queue.first->at_ns > free_ns ? way->queue.first->at_ns : free_ns;
}

/* The other direction sends first if it can sooner, or at the same time and was not the last to send. */
static bool is_others_turn(const struct way *way)
{
	int64_t ours, theirs;

	if (!is_shared(way) || !way->other->queue.first)
		return false;
	ours = start_ns(way);
	theirs = start_ns(way->other);
	return theirs < ours || (theirs == ours && way->other->free_ns < way->free_ns);
}

/* Returns when the first packet's last bit leaves, as known now. */
static int64_t finish_ns(const struct way *way)
{
	int64_t start = start_ns(way);

	if (is_others_turn(way)) {
		const struct way *other = way->other;
		int64_t after = start_ns(other) + sending_ns(&other->shape, other->queue.first->bytes, rate_share(other));

		start = after > start ? after : start;
	}
	return start + sending_ns(&way->shape, way->queue.first->bytes, rate_share(way));
}

static void send_first(struct way *way, int64_t finish)
{
	struct packet *packet = pop(&way->queue);
	int64_t due = finish + way->shape.delay_ns;

	way->queued_bytes -= packet->bytes;
	senders_leave(&way->senders, packet->sender);
	way->free_ns = finish;
	if (way->shape.jitter_ns)
		due += (int64_t)(random_unit(way) * (double)way->shape.jitter_ns);
	if (due < way->last_due_ns)
		due = way->last_due_ns;
	way->last_due_ns = due;
	packet->at_ns = due;
	append(&way->line, packet);
	way->line_packets++;
}

/* On a shared channel the other direction's queue moves too. */
static void advance(struct way *way, int64_t now_ns)
{
	for (;;) {
		struct way *next = way;

		if (is_shared(way) && (!way->queue.first || is_others_turn(way)))
			next = way->other;
		if (!next->queue.first || finish_ns(next) > now_ns)
			return;
		send_first(next, finish_ns(next));
	}
}

void way_init(struct way *way, uint64_t seed)
{
	*way = (struct way){ .random_state = seed ? seed : 1 };
	way->queue.end = &way->queue.first;
	way->line.end = &way->line.first;
}

void way_shape(struct way *way, const struct shape *shape, int64_t now_ns)
{
	advance(way, now_ns);
	if (way->queue.first && shape->rate_bps != way->shape.rate_bps) {
		/* Remaining bits leave at the new rate. */
		struct packet *first = way->queue.first;
		int64_t whole = sending_ns(&way->shape, first->bytes, rate_share(way));
		int64_t left = finish_ns(way) - now_ns;
		int64_t whole_now = sending_ns(shape, first->bytes, rate_share(way));

		way->free_ns = now_ns - whole_now + (int64_t)((double)whole_now * (double)left / (double)whole);
		first->at_ns = way->free_ns;
		first->behind_ns = 0;
	}
	if (!shape->p)
		way->bad = false;
	if (!way->shape.others)
		way->cross_traffic_ns = now_ns; /* none until now */
	way->shape = *shape;
}

static bool is_lost(struct way *way)
{
	const struct shape *shape = &way->shape;
	bool lost = shape->loss > 0 && random_unit(way) < shape->loss;

	if (shape->p > 0) {
		way->bad = way->bad ? random_unit(way) >= shape->r : random_unit(way) < shape->p;
		lost |= random_unit(way) < (way->bad ? shape->loss_bad : shape->loss_good);
	}
	return lost;
}

/* Adds cross traffic, a Poisson process, ahead of the packet that arrives now. */
static int64_t add_cross_traffic(struct way *way, int64_t now_ns)
{
	int64_t takes = sending_ns(&way->shape, CROSS_TRAFFIC_BYTES, 1), behind = 0;
	double apart = (double)takes / way->shape.others;

	if (way->cross_traffic_ns < now_ns - CROSS_TRAFFIC_LOOKBACK * takes)
		way->cross_traffic_ns = now_ns - CROSS_TRAFFIC_LOOKBACK * takes;
	while (way->cross_traffic_ns <= now_ns) {
		if (way->queue.first) {
			behind += takes;
		} else {
			way->free_ns = (way->cross_traffic_ns > way->free_ns ? way->cross_traffic_ns : way->free_ns) + takes;
		}
		way->cross_traffic_ns += 1 + (int64_t)(-log(1 - random_unit(way)) * apart);
	}
	return behind;
}

bool way_arrive(struct way *way, struct packet *packet, int64_t now_ns)
{
	way->counters.in_packets++;
	way->counters.in_bytes += packet->bytes;
	if (is_lost(way)) {
		way->counters.lost_packets++;
		return false;
	}
	advance(way, now_ns);
	if (way->queued_bytes + packet->bytes > way->shape.queue_bytes || way->line_packets >= LINE_MAX_PACKETS) {
		way->counters.dropped_packets++;
		return false;
	}
	packet->behind_ns = way->shape.others > 0 && way->shape.rate_bps ? add_cross_traffic(way, now_ns) : 0;
	packet->at_ns = now_ns;
	packet->sender = senders_join(&way->senders, packet->frame + packet->room + SOURCE_MAC_OFFSET);
	append(&way->queue, packet);
	way->queued_bytes += packet->bytes;
	return true;
}

int64_t way_due(const struct way *way)
{
	int64_t due;

	if (way->line.first)
		return way->line.first->at_ns;
	if (!way->queue.first)
		return NEVER;
	due = finish_ns(way) + way->shape.delay_ns;
	return due > way->last_due_ns ? due : way->last_due_ns;
}

struct packet *way_leave(struct way *way, int64_t now_ns, int64_t *due_ns)
{
	struct packet *packet;

	advance(way, now_ns);
	if (!way->line.first || way->line.first->at_ns > now_ns)
		return NULL;
	packet = pop(&way->line);
	way->line_packets--;
	way->counters.out_packets++;
	way->counters.out_bytes += packet->bytes;
	*due_ns = packet->at_ns;
	return packet;
}
