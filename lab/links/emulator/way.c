// SPDX-License-Identifier: Apache-2.0
/* See way.h. */
#include "way.h"

#include <math.h>
#include <stddef.h>

#define NS_PER_S 1000000000.0
/* 200 Mbit/s over half a second, and a bound on memory for a link without a rate. */
#define LINE_MAX_PACKETS 16384
#define LEAST_PART 0.1	/* of the rate, however many contend */
#define SOURCE_AT 6	/* in an Ethernet frame */
#define OTHERS_BYTES 1514
#define OTHERS_LOOKED_AT 4000	/* of their packets' lengths: who came before has left by now */

static void append(struct fifo *fifo, struct packet *packet)
{
	packet->next = NULL;
	*fifo->end = packet;
	fifo->end = &packet->next;
}

static struct packet *take(struct fifo *fifo)
{
	struct packet *packet = fifo->first;

	fifo->first = packet->next;
	if (!fifo->first)
		fifo->end = &fifo->first;
	return packet;
}

/* xorshift64*: uniform in [0, 1). */
static double throw_dice(struct way *way)
{
	way->dice ^= way->dice >> 12;
	way->dice ^= way->dice << 25;
	way->dice ^= way->dice >> 27;
	return (double)((way->dice * 0x2545f4914f6cdd1dULL) >> 11) / 9007199254740992.0; /* 2^53 */
}

static int64_t sending_ns(const struct shape *shape, uint32_t bytes, double part)
{
	return shape->rate_bps ? (int64_t)(bytes * 8.0 * NS_PER_S / ((double)shape->rate_bps * part)) : 0;
}

static bool is_shared(const struct way *way)
{
	return way->other && way->shape.shared && way->other->shape.shared;
}

/* Of the rate, which those who wait for the channel leave to whoever sends. */
static double part_left(const struct way *way)
{
	unsigned int contending = way->senders.count + (is_shared(way) ? way->other->senders.count : 0);
	double left = contending ? 1 - way->shape.contention * (contending - 1) : 1;

	return left > LEAST_PART ? left : LEAST_PART;
}

/* When the first packet in the queue could begin to be sent. */
static int64_t start_ns(const struct way *way)
{
	int64_t free_ns = way->free_ns;

	if (is_shared(way) && way->other->free_ns > free_ns)
		free_ns = way->other->free_ns;
	free_ns += way->queue.first->behind_ns;
	return way->queue.first->at_ns > free_ns ? way->queue.first->at_ns : free_ns;
}

/* Whether the other direction sends before this one does: it could sooner, or as soon and was not the last to send. */
static bool is_others_turn(const struct way *way)
{
	int64_t ours, theirs;

	if (!is_shared(way) || !way->other->queue.first)
		return false;
	ours = start_ns(way);
	theirs = start_ns(way->other);
	return theirs < ours || (theirs == ours && way->other->free_ns < way->free_ns);
}

/* When the last bit of the first packet in the queue leaves, as far as is known by now. */
static int64_t finish_ns(const struct way *way)
{
	int64_t start = start_ns(way);

	if (is_others_turn(way)) {
		const struct way *other = way->other;
		int64_t after = start_ns(other) + sending_ns(&other->shape, other->queue.first->bytes, part_left(other));

		start = after > start ? after : start;
	}
	return start + sending_ns(&way->shape, way->queue.first->bytes, part_left(way));
}

/* Moves the first packet, sent by then, from the queue into the line. */
static void send_first(struct way *way, int64_t finish)
{
	struct packet *packet = take(&way->queue);
	int64_t due = finish + way->shape.delay_ns;

	way->queued_bytes -= packet->bytes;
	senders_leave(&way->senders, packet->sender);
	way->free_ns = finish;
	if (way->shape.jitter_ns)
		due += (int64_t)(throw_dice(way) * (double)way->shape.jitter_ns);
	if (due < way->last_due_ns)
		due = way->last_due_ns;
	way->last_due_ns = due;
	packet->at_ns = due;
	append(&way->line, packet);
	way->line_packets++;
}

/* Everything that has been sent by now leaves the queue, that of the other direction, too, where they take turns. */
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
	*way = (struct way){ .dice = seed ? seed : 1 };
	way->queue.end = &way->queue.first;
	way->line.end = &way->line.first;
}

void way_shape(struct way *way, const struct shape *shape, int64_t now_ns)
{
	advance(way, now_ns);
	if (way->queue.first && shape->rate_bps != way->shape.rate_bps) {
		/* Of the packet that is being sent, the bits that have not left yet leave at the new rate. */
		struct packet *first = way->queue.first;
		int64_t whole = sending_ns(&way->shape, first->bytes, part_left(way));
		int64_t left = finish_ns(way) - now_ns;
		int64_t whole_now = sending_ns(shape, first->bytes, part_left(way));

		way->free_ns = now_ns - whole_now + (int64_t)((double)whole_now * (double)left / (double)whole);
		first->at_ns = way->free_ns;
		first->behind_ns = 0;
	}
	if (!shape->p)
		way->bad = false;
	if (!way->shape.others)
		way->others_ns = now_ns; /* nobody came until now */
	way->shape = *shape;
}

static bool is_lost(struct way *way)
{
	const struct shape *shape = &way->shape;
	bool lost = shape->loss > 0 && throw_dice(way) < shape->loss;

	if (shape->p > 0) {
		way->bad = way->bad ? throw_dice(way) >= shape->r : throw_dice(way) < shape->p;
		lost |= throw_dice(way) < (way->bad ? shape->loss_bad : shape->loss_good);
	}
	return lost;
}

/* Others' packets come at random, each by itself (Poisson). Those that have arrived by now are before whatever arrives now. */
static int64_t let_others_in(struct way *way, int64_t now_ns)
{
	int64_t takes = sending_ns(&way->shape, OTHERS_BYTES, 1), behind = 0;
	double apart = (double)takes / way->shape.others;

	if (way->others_ns < now_ns - OTHERS_LOOKED_AT * takes)
		way->others_ns = now_ns - OTHERS_LOOKED_AT * takes;
	while (way->others_ns <= now_ns) {
		if (way->queue.first) {
			behind += takes;
		} else {
			way->free_ns = (way->others_ns > way->free_ns ? way->others_ns : way->free_ns) + takes;
		}
		way->others_ns += 1 + (int64_t)(-log(1 - throw_dice(way)) * apart);
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
	packet->behind_ns = way->shape.others > 0 && way->shape.rate_bps ? let_others_in(way, now_ns) : 0;
	packet->at_ns = now_ns;
	packet->sender = senders_join(&way->senders, packet->frame + packet->room + SOURCE_AT);
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
	packet = take(&way->line);
	way->line_packets--;
	way->counters.out_packets++;
	way->counters.out_bytes += packet->bytes;
	*due_ns = packet->at_ns;
	return packet;
}
