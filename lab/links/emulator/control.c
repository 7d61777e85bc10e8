// SPDX-License-Identifier: Apache-2.0
/* See control.h. */
#include "control.h"

#include <inttypes.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fail.h"

#define MESSAGE_BYTES 1024
#define NS_PER_US 1000
#define NS_PER_S 1e9

enum kind { WHOLE, MICROSECONDS, CHANCE };

static const struct {
	const char *name;
	enum kind kind;
	size_t offset;
} fields[] = {
	{ "rate_bps", WHOLE, offsetof(struct shape, rate_bps) },
	{ "queue_bytes", WHOLE, offsetof(struct shape, queue_bytes) },
	{ "delay_us", MICROSECONDS, offsetof(struct shape, delay_ns) },
	{ "jitter_us", MICROSECONDS, offsetof(struct shape, jitter_ns) },
	{ "loss", CHANCE, offsetof(struct shape, loss) },
	{ "p", CHANCE, offsetof(struct shape, p) },
	{ "r", CHANCE, offsetof(struct shape, r) },
	{ "loss_good", CHANCE, offsetof(struct shape, loss_good) },
	{ "loss_bad", CHANCE, offsetof(struct shape, loss_bad) },
	{ "shared", WHOLE, offsetof(struct shape, shared) },
	{ "contention", CHANCE, offsetof(struct shape, contention) },
	{ "others", CHANCE, offsetof(struct shape, others) },
};

#define FIELDS (sizeof(fields) / sizeof(*fields))
#define WHOLE_MAX 1000000000000LL	/* bits or bytes; as microseconds, 11 days */

void control_open(struct control *control, struct link *link, const char *path)
{
	struct sockaddr_un place = { .sun_family = AF_UNIX };

	*control = (struct control){ .link = link };
	memset(control->clients, -1, sizeof(control->clients));
	if (strlen(path) >= sizeof(place.sun_path)) {
		errno = ENAMETOOLONG;
		fail("%s", path);
	}
	strcpy(place.sun_path, path);
	control->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (control->listener < 0 || bind(control->listener, (struct sockaddr *)&place, sizeof(place)) ||
	    listen(control->listener, CLIENTS))
		fail("%s: cannot be listened on", path);
}

static bool set_field(struct shape *shape, const char *word, char *answer)
{
	const char *value = strchr(word, '=');

	for (unsigned int i = 0; value && i < FIELDS; i++) {
		char *place = (char *)shape + fields[i].offset;
		char *end;

		if (strlen(fields[i].name) != (size_t)(value - word) ||
		    strncmp(fields[i].name, word, (size_t)(value - word)) != 0)
			continue;
		value++;
		if (fields[i].kind == CHANCE) {
			double chance = strtod(value, &end);

			if (*value && !*end && chance >= 0 && chance <= 1) {
				memcpy(place, &chance, sizeof(chance));
				return true;
			}
			snprintf(answer, MESSAGE_BYTES, "{\"error\": \"%s: expected a number from 0 to 1\"}", word);
		} else {
			int64_t whole = strtoll(value, &end, 10);

			if (*value && !*end && whole >= 0 && whole <= WHOLE_MAX) {
				whole *= fields[i].kind == MICROSECONDS ? NS_PER_US : 1;
				memcpy(place, &whole, sizeof(whole));
				return true;
			}
			snprintf(answer, MESSAGE_BYTES, "{\"error\": \"%s: expected a whole number from 0 to %lld\"}",
				 word, WHOLE_MAX);
		}
		return false;
	}
	snprintf(answer, MESSAGE_BYTES, "{\"error\": \"%s: is not NAME=VALUE of a shape\"}", word);
	return false;
}

static void set(struct link *link, char *words, char *answer)
{
	char *rest = NULL;
	const char *name = strtok_r(words, " ", &rest);
	struct way *way;
	struct shape shape;

	if (name && strcmp(name, "forward") == 0) {
		way = &link->ways[FORWARD];
	} else if (name && strcmp(name, "backward") == 0) {
		way = &link->ways[BACKWARD];
	} else {
		snprintf(answer, MESSAGE_BYTES, "{\"error\": \"set: expected forward or backward\"}");
		return;
	}
	shape = way->shape;
	for (char *word = strtok_r(NULL, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (!set_field(&shape, word, answer))
			return;
	}
	way_shape(way, &shape, link_now());
	strcpy(answer, "{}");
}

static int counters_of(struct link *link, unsigned int direction, char *answer, size_t room)
{
	const struct counters *seen = &link->ways[direction].counters;
	const struct port *from = &link->ports[direction];
	const struct port *to = &link->ports[!direction];

	if (link->open)
		port_count(&link->ports[direction]);
	return snprintf(answer, room,
			"{\"in_packets\": %" PRIu64 ", \"in_bytes\": %" PRIu64 ", \"out_packets\": %" PRIu64
			", \"out_bytes\": %" PRIu64 ", \"lost_packets\": %" PRIu64 ", \"dropped_packets\": %" PRIu64
			", \"missed_packets\": %" PRIu64 ", \"oversized_packets\": %" PRIu64
			", \"unsent_packets\": %" PRIu64 "}",
			seen->in_packets, seen->in_bytes, seen->out_packets, seen->out_bytes, seen->lost_packets,
			seen->dropped_packets, from->missed_packets, from->oversized_packets, to->unsent_packets);
}

static void counters(struct link *link, char *answer)
{
	int used = snprintf(answer, MESSAGE_BYTES, "{\"forward\": ");

	used += counters_of(link, FORWARD, answer + used, MESSAGE_BYTES - (size_t)used);
	used += snprintf(answer + used, MESSAGE_BYTES - (size_t)used, ", \"backward\": ");
	used += counters_of(link, BACKWARD, answer + used, MESSAGE_BYTES - (size_t)used);
	snprintf(answer + used, MESSAGE_BYTES - (size_t)used, "}");
}

static void lateness(struct link *link, char *answer)
{
	const struct lateness *seen = &link->lateness;
	int64_t now = link_now();

	snprintf(answer, MESSAGE_BYTES,
		 "{\"seconds\": %.3f, \"packets\": %" PRIu64 ", \"p50_us\": %" PRIu64 ", \"p99_us\": %" PRIu64
		 ", \"max_us\": %" PRIu64 ", \"stalls\": %" PRIu64 "}",
		 (double)(now - link->counted_since_ns) / NS_PER_S, seen->packets, lateness_quantile(seen, 0.5),
		 lateness_quantile(seen, 0.99), seen->max_us, seen->stalls);
	link->lateness = (struct lateness){ 0 };
	link->counted_since_ns = now;
}

static void execute(struct link *link, char *command, char *answer)
{
	if (strcmp(command, "open") == 0) {
		link_open(link);
		strcpy(answer, "{}");
	} else if (strncmp(command, "set ", 4) == 0) {
		set(link, command + 4, answer);
	} else if (strcmp(command, "counters") == 0) {
		counters(link, answer);
	} else if (strcmp(command, "lateness") == 0) {
		lateness(link, answer);
	} else if (strcmp(command, "end") == 0) {
		exit(0);
	} else {
		snprintf(answer, MESSAGE_BYTES,
			 "{\"error\": \"expected open, set, counters, lateness or end\"}");
	}
}

void control_poll_fds(const struct control *control, struct pollfd *fds)
{
	fds[0] = (struct pollfd){ control->listener, POLLIN, 0 };
	for (unsigned int i = 0; i < CLIENTS; i++)
		fds[1 + i] = (struct pollfd){ control->clients[i], POLLIN, 0 };
}

static void accept_client(struct control *control)
{
	int client = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	for (unsigned int i = 0; i < CLIENTS; i++) {
		if (control->clients[i] < 0) {
			control->clients[i] = client;
			return;
		}
	}
	close(client);
}

void control_serve(struct control *control, const struct pollfd *fds)
{
	for (unsigned int i = 0; i < CLIENTS; i++) {
		char command[MESSAGE_BYTES];
		char answer[MESSAGE_BYTES];
		ssize_t bytes;

		if (!fds[1 + i].revents)
			continue;
		bytes = recv(control->clients[i], command, sizeof(command) - 1, 0);
		if (bytes <= 0) {
			close(control->clients[i]);
			control->clients[i] = -1;
			continue;
		}
		command[bytes] = '\0';
		execute(control->link, command, answer);
		send(control->clients[i], answer, strlen(answer), MSG_NOSIGNAL);
	}
	if (fds[0].revents)
		accept_client(control);
}
