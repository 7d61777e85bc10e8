/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the link is told, and what it answers: each command and each answer is one message of a SOCK_SEQPACKET socket.
 *
 *   open                               the devices `near` and `far` are here: carry packets between them
 *   set forward|backward NAME=VALUE…   all of them from now on, or none of them when one is wrong
 *   counters                           of each direction, since the beginning
 *   lateness                           since this was last asked
 *   end                                the process ends, and the link with it
 *
 * An answer is a JSON object; {"error": "…"} says what was wrong.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include <poll.h>

#include "link.h"

#define CLIENTS 4

struct control {
	struct link *link;
	int listener;
	int clients[CLIENTS];	/* -1: none */
};

#define CONTROL_FDS (1 + CLIENTS)

void control_open(struct control *control, struct link *link, const char *path);

/* Fills CONTROL_FDS entries. */
void control_wants(const struct control *control, struct pollfd *fds);
void control_serve(struct control *control, const struct pollfd *fds);

#endif
