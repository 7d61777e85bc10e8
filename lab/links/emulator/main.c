// SPDX-License-Identifier: Apache-2.0
/*
 * A link with delay between two veths, in its own network namespace (way.h, control.h). It ends with its starter.
 *
 *   link-emulator SOCKET PARENT STALL_US
 *
 * After `ready` its starter moves one end of each veth into the namespace, as `near` and `far`, and sends `open`. Before
 * a packet is due the program spins, because a wake-up takes too long.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "fail.h"
#include "link.h"

#define NS_PER_S 1000000000LL
#define PRIORITY 10
#define SPIN_NS 60000		/* 90 % of wake-ups take less */
#define SPIN_SHARE 4		/* spin for at most 1/SPIN_SHARE of the time */
#define SPIN_SAVED_MAX_NS 1000000	/* saved by an idle link, at most */
#define READ_INTERVAL_NS 1000000	/* packets of a longer delay carry their time, so reading may wait */
#define CONTROL_INTERVAL_NS 2000000	/* control waits while packets are due */

static void die_with_parent(const char *parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		fail("PR_SET_PDEATHSIG");
	if (getppid() != atoi(parent))
		exit(1); /* the parent died before prctl() took effect */
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail("%s: cannot be set to %s", path, text);
	close(fd);
}

static void enter_network_namespace(void)
{
	if (unshare(CLONE_NEWNET))
		fail("no network namespace");
	/* With IPv6 this end would send too. */
	write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

/* Without this permission packets leave later, which lateness counts. */
static void set_realtime(void)
{
	struct sched_param priority = { .sched_priority = PRIORITY };

	if (sched_setscheduler(0, SCHED_FIFO, &priority) || mlockall(MCL_CURRENT | MCL_FUTURE))
		fprintf(stderr, "link-emulator: without SCHED_FIFO or locked memory: %s\n", strerror(errno));
}

/* Sleeps at most this long, until a command or, unless packets may wait, a packet arrives. */
static void sleep_for(struct control *control, const struct link *link, int64_t left_ns, bool may_wait)
{
	struct pollfd fds[CONTROL_FDS + DIRECTIONS];
	struct timespec time;

	if (may_wait && left_ns > READ_INTERVAL_NS)
		left_ns = READ_INTERVAL_NS;
	time = (struct timespec){ left_ns / NS_PER_S, left_ns % NS_PER_S };
	control_poll_fds(control, fds);
	for (unsigned int i = 0; i < DIRECTIONS; i++)
		fds[CONTROL_FDS + i] = (struct pollfd){ link->ports[i].fd, POLLIN, 0 };
	if (ppoll(fds, CONTROL_FDS + (may_wait ? 0 : DIRECTIONS), &time, NULL) > 0)
		control_serve(control, fds);
}

/* The time that may be spent spinning between packets. */
struct idle_budget {
	int64_t before_ns;
	int64_t served_ns;
	int64_t saved_ns;	/* left for spinning */
};

static void idle(struct idle_budget *idle_budget, struct control *control, const struct link *link, int64_t next_ns)
{
	int64_t now = link_now();
	int64_t left = next_ns - now;
	int64_t spin = left < SPIN_NS ? left : SPIN_NS;

	idle_budget->saved_ns += (now - idle_budget->before_ns) / SPIN_SHARE;
	if (idle_budget->saved_ns > SPIN_SAVED_MAX_NS)
		idle_budget->saved_ns = SPIN_SAVED_MAX_NS;
	idle_budget->before_ns = now;
	if (idle_budget->saved_ns < spin)
		spin = 0;
	if (left > spin || now - idle_budget->served_ns > CONTROL_INTERVAL_NS) {
		bool may_wait = next_ns != NEVER && link_min_delay(link) > READ_INTERVAL_NS + SPIN_NS;

		sleep_for(control, link, left > spin ? left - spin : 0, may_wait);
		idle_budget->served_ns = now;
	} else if (spin > 0) {
		idle_budget->saved_ns -= spin;
		while (link_now() < next_ns)
			continue;
	}
}

int main(int argc, char **argv)
{
	static struct link link;
	static struct control control;
	struct idle_budget idle_budget = { 0 };

	if (argc != 4) {
		fprintf(stderr, "usage: link-emulator SOCKET PARENT STALL_US\n");
		return 64;
	}
	die_with_parent(argv[2]);
	enter_network_namespace();
	set_realtime();
	link_init(&link, strtoull(argv[3], NULL, 10));
	control_open(&control, &link, argv[1]);
	puts("ready");
	fflush(stdout);
	for (;;)
		idle(&idle_budget, &control, &link, link_carry(&link));
}
