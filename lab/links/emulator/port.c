// SPDX-License-Identifier: Apache-2.0
/* See port.h. */
#include "port.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"

#define NS_PER_S 1000000000LL
#define BUFFER_BYTES (32 << 20)
#define TAG_BYTES 4		/* 802.1Q; the kernel moves the tag into auxiliary data */
#define TAG_OFFSET (2 * ETH_ALEN)
#define ROOM TAG_BYTES
/* Two clocks that are read within CLOCK_READ_MAX_NS count as read at once; else both are read again. */
#define CLOCK_READ_MAX_NS 10000
#define CLOCK_TRIES 3

static void set_option(int fd, int level, int option, int value, const char *name)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		fail("%s of a packet socket", name);
}

static void set_up(int fd, const char *device)
{
	struct ifreq request = { 0 };

	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	if (ioctl(fd, SIOCGIFFLAGS, &request))
		fail("%s: its flags cannot be read", device);
	request.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		fail("%s: cannot be set up", device);
}

static void prepare_slot(struct slots *slots, unsigned int i, struct pool *pool)
{
	struct packet *packet = pool_take(pool);

	packet->room = ROOM;
	slots->packets[i] = packet;
	slots->frames[i] = (struct iovec){ packet->frame + ROOM, FRAME_MAX - ROOM };
	slots->messages[i].msg_hdr = (struct msghdr){ .msg_iov = &slots->frames[i], .msg_iovlen = 1,
						      .msg_control = slots->ancillary[i],
						      .msg_controllen = ANCILLARY_BYTES };
}

void port_open(struct port *port, const char *device, struct pool *pool)
{
	struct sockaddr_ll place = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: no packets before bind() */

	if (fd < 0)
		fail("no packet socket");
	set_up(fd, device);
	set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
	set_option(fd, SOL_PACKET, PACKET_AUXDATA, 1, "PACKET_AUXDATA");
	set_option(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1, "SO_TIMESTAMPNS");
	set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES, "SO_RCVBUFFORCE");
	set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES, "SO_SNDBUFFORCE");
	place.sll_ifindex = (int)if_nametoindex(device);
	if (bind(fd, (struct sockaddr *)&place, sizeof(place)))
		fail("%s: cannot be read", device);
	*port = (struct port){ .device = device, .fd = fd };
	for (unsigned int i = 0; i < BATCH; i++)
		prepare_slot(&port->slots, i, pool);
}

static int64_t read_clock(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return time.tv_sec * NS_PER_S + time.tv_nsec;
}

static void restore_tag(struct packet *packet, const struct tpacket_auxdata *auxdata)
{
	unsigned char *frame = packet->frame + packet->room - TAG_BYTES;
	uint16_t kind = htons(auxdata->tp_status & TP_STATUS_VLAN_TPID_VALID ? auxdata->tp_vlan_tpid : ETH_P_8021Q);
	uint16_t tag = htons(auxdata->tp_vlan_tci);

	memmove(frame, frame + TAG_BYTES, TAG_OFFSET);
	memcpy(frame + TAG_OFFSET, &kind, sizeof(kind));
	memcpy(frame + TAG_OFFSET + sizeof(kind), &tag, sizeof(tag));
	packet->room -= TAG_BYTES;
	packet->bytes += TAG_BYTES;
}

/* Reads arrival by the wall clock, and the VLAN tag. */
static void read_ancillary(struct packet *packet, struct msghdr *message, int64_t wall_clock_offset_ns)
{
	for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each)) {
		if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SO_TIMESTAMPNS) {
			struct timespec time;

			memcpy(&time, CMSG_DATA(each), sizeof(time));
			packet->at_ns = time.tv_sec * NS_PER_S + time.tv_nsec - wall_clock_offset_ns;
		} else if (each->cmsg_level == SOL_PACKET && each->cmsg_type == PACKET_AUXDATA) {
			struct tpacket_auxdata auxdata;

			memcpy(&auxdata, CMSG_DATA(each), sizeof(auxdata));
			if (auxdata.tp_status & TP_STATUS_VLAN_VALID)
				restore_tag(packet, &auxdata);
		}
	}
}

/*
 * Returns how far the wall clock is ahead of the monotonic one. Time between the readings makes packets seem later,
 * never earlier.
 */
static int64_t wall_clock_offset(void)
{
	for (int tries = 0;; tries++) {
		int64_t before = read_clock(CLOCK_MONOTONIC);
		int64_t wall = read_clock(CLOCK_REALTIME);
		int64_t after = read_clock(CLOCK_MONOTONIC);

		if (after - before < CLOCK_READ_MAX_NS || tries == CLOCK_TRIES)
			return wall - after;
	}
}

unsigned int port_read(struct port *port, struct pool *pool, struct packet **packets)
{
	int64_t wall_clock_offset_ns = wall_clock_offset();
	struct slots *slots = &port->slots;
	int count = recvmmsg(port->fd, slots->messages, BATCH, MSG_DONTWAIT, NULL);
	int64_t now_ns = read_clock(CLOCK_MONOTONIC); /* some packets arrive while others are read */
	unsigned int kept = 0;

	for (int i = 0; i < count; i++) {
		struct packet *packet = slots->packets[i];
		struct mmsghdr *message = &slots->messages[i];

		if (message->msg_hdr.msg_flags & MSG_TRUNC) {
			port->oversized_packets++;
			pool_give(pool, packet);
			prepare_slot(slots, (unsigned int)i, pool);
			continue;
		}
		packet->bytes = message->msg_len;
		packet->at_ns = now_ns;
		read_ancillary(packet, &message->msg_hdr, wall_clock_offset_ns);
		/* The wall clock may have been set, but arrivals must not go backwards. */
		if (packet->at_ns > now_ns)
			packet->at_ns = now_ns;
		if (packet->at_ns < port->last_arrival_ns)
			packet->at_ns = port->last_arrival_ns;
		port->last_arrival_ns = packet->at_ns;
		packets[kept++] = packet;
		prepare_slot(slots, (unsigned int)i, pool);
	}
	return kept;
}

void port_write(struct port *port, struct packet **packets, unsigned int count)
{
	struct mmsghdr messages[BATCH];
	struct iovec frames[BATCH];
	unsigned int sent = 0;

	for (unsigned int i = 0; i < count; i++) {
		frames[i] = (struct iovec){ packets[i]->frame + packets[i]->room, packets[i]->bytes };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &frames[i], .msg_iovlen = 1 };
	}
	while (sent < count) {
		int done = sendmmsg(port->fd, messages + sent, count - sent, MSG_DONTWAIT);

		if (done <= 0) {
			port->unsent_packets++;
			done = 1;
		}
		sent += (unsigned int)done;
	}
}

void port_count(struct port *port)
{
	struct tpacket_stats seen;
	socklen_t size = sizeof(seen);

	if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &seen, &size) == 0)
		port->missed_packets += seen.tp_drops;
}
