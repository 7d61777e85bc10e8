// SPDX-License-Identifier: Apache-2.0
/*
 * A link with delay, between two veths, in a network namespace of its own. See way.h for what it does to packets and
 * control.h for what it is told. It ends with the process that started it.
 *
 *   link-emulator SOCKET PARENT STALL_US
 *
 * It says `ready` when its namespace is there; then its starter moves one end of each veth into it, as `near` and as
 * `far`, and says `open`. Before a packet is due it waits awake, because to be woken takes longer than is wanted.
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
#define AWAKE_NS 60000		/* what being woken takes here, nine times of ten */
#define AWAKE_SHARE 4		/* of the time, at most one part of so many is spent waiting awake */
#define AWAKE_SAVED_NS 1000000	/* what an idle link may save of it */
#define READ_EVERY_NS 1000000	/* packets of a longer delay may wait to be read: they carry their time */
#define LISTEN_EVERY_NS 2000000	/* how long the control socket may wait when packets are always due */

static void follow(const char *parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		fail("PR_SET_PDEATHSIG");
	if (getppid() != atoi(parent))
		exit(1); /* it has died before we could follow it */
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail("%s: cannot be set to %s", path, text);
	close(fd);
}

static void leave_for_own_network(void)
{
	if (unshare(CLONE_NEWNET))
		fail("no network namespace");
	/* Nobody but the link's machines speaks on it. */
	write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

/* The machine's other work waits for us; where that is not allowed, lateness will show it. */
static void hurry(void)
{
	struct sched_param priority = { .sched_priority = PRIORITY };

	if (sched_setscheduler(0, SCHED_FIFO, &priority) || mlockall(MCL_CURRENT | MCL_FUTURE))
		fprintf(stderr, "link-emulator: without SCHED_FIFO or locked memory: %s\n", strerror(errno));
}

/* Sleeps for so long at most, or until somebody speaks or, unless packets may wait, something comes. */
static void sleep_for(struct control *control, const struct link *link, int64_t left_ns, bool may_wait)
{
	struct pollfd fds[CONTROL_FDS + DIRECTIONS];
	struct timespec time;

	if (may_wait && left_ns > READ_EVERY_NS)
		left_ns = READ_EVERY_NS;
	time = (struct timespec){ left_ns / NS_PER_S, left_ns % NS_PER_S };
	control_wants(control, fds);
	for (unsigned int i = 0; i < DIRECTIONS; i++)
		fds[CONTROL_FDS + i] = (struct pollfd){ link->ports[i].fd, POLLIN, 0 };
	if (ppoll(fds, CONTROL_FDS + (may_wait ? 0 : DIRECTIONS), &time, NULL) > 0)
		control_serve(control, fds);
}

/* How this program spends its time between packets. */
struct leisure {
	int64_t before_ns;
	int64_t listened_ns;
	int64_t saved_ns;	/* what may be spent awake */
};

static void rest(struct leisure *leisure, struct control *control, const struct link *link, int64_t next_ns)
{
	int64_t now = link_now();
	int64_t left = next_ns - now;
	int64_t awake = left < AWAKE_NS ? left : AWAKE_NS;

	leisure->saved_ns += (now - leisure->before_ns) / AWAKE_SHARE;
	if (leisure->saved_ns > AWAKE_SAVED_NS)
		leisure->saved_ns = AWAKE_SAVED_NS;
	leisure->before_ns = now;
	if (leisure->saved_ns < awake)
		awake = 0;
	if (left > awake || now - leisure->listened_ns > LISTEN_EVERY_NS) {
		bool may_wait = next_ns != NEVER && link_least_delay(link) > READ_EVERY_NS + AWAKE_NS;

		sleep_for(control, link, left > awake ? left - awake : 0, may_wait);
		leisure->listened_ns = now;
	} else if (awake > 0) {
		leisure->saved_ns -= awake;
		while (link_now() < next_ns)
			continue;
	}
}

int main(int argc, char **argv)
{
	static struct link link;
	static struct control control;
	struct leisure leisure = { 0 };

	if (argc != 4) {
		fprintf(stderr, "usage: link-emulator SOCKET PARENT STALL_US\n");
		return 64;
	}
	follow(argv[2]);
	leave_for_own_network();
	hurry();
	link_init(&link, strtoull(argv[3], NULL, 10));
	control_open(&control, &link, argv[1]);
	puts("ready");
	fflush(stdout);
	for (;;)
		rest(&leisure, &control, &link, link_carry(&link));
}
