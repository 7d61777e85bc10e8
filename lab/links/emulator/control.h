/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands and answers, each one message of a SOCK_SEQPACKET socket.
 *
 *   open                               carry packets between the devices `near` and `far`
 *   set forward|backward NAME=VALUE…   change all of these, or none if one is wrong
 *   counters                           of each direction, since the beginning
 *   lateness                           since the previous such command
 *   end                                end the process and the link
 *
 * An answer is a JSON object; {"error": "…"} names the fault.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include <poll.h>

#include "link.h"

#define CLIENTS 4

struct control {
	struct link *link;
	int listener;
	int clients[CLIENTS];	/* -1: free */
};

#define CONTROL_FDS (1 + CLIENTS)

void control_open(struct control *control, struct link *link, const char *path);

/* Fills CONTROL_FDS entries. */
void control_poll_fds(const struct control *control, struct pollfd *fds);
void control_serve(struct control *control, const struct pollfd *fds);

#endif
