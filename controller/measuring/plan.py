"""What one probe sends, for how long, and how many bytes that is.

Packets that wait for one another tell nothing: so the slower a road is known to be, the longer the pause between them.
On a fast one the time that a packet takes is little beside the time of a processor, and more of them have to tell it.
Where each byte is paid for there are as few as tell anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.measuring.roads import Road
from controller.orders import Probe

SHORTEST_UP = 16  # bytes of UDP payload
SHORTEST_DOWN = 64
LONGEST = 1440
STEP = 16
TRAINS, TRAIN_PACKETS = 10, 40
TRAINS_PAID, TRAIN_PACKETS_PAID = 8, 18
FAST_BPS = 50e6
TRIES, TRIES_FAST, TRIES_PAID = 10, 100, 3
PAUSE_US, PAUSE_FAST_US = 10_000, 1_000
LONGEST_PAUSE_US = 500_000
APART = 10  # so many times what the longest packet takes
HEADERS = 62  # bytes of Ethernet, IPv6 and UDP: of IPv4 it is less
SMALL = 64 + HEADERS  # an answer, or what asks for a long one


@dataclass(frozen=True, slots=True)
class Plan:
    shortest: int
    tries: int
    pause_us: int
    trains: int
    train_packets: int

    @property
    def lasts_s(self) -> float:
        return self.packets * self.pause_us / 1e6  # trains are as far apart as their packets would be

    @property
    def packets(self) -> int:
        return len(self._lengths) * self.tries + self.trains * self.train_packets

    @property
    def bytes(self) -> int:
        """In both directions."""
        long = self.tries * sum(self._lengths) + self.trains * self.train_packets * LONGEST
        return long + self.packets * (HEADERS + SMALL)

    @property
    def _lengths(self) -> range:
        return range(self.shortest, LONGEST + 1, STEP)

    def order(self, road: Road, down: bool, meeting: int) -> Probe:
        return Probe(
            name=road.uplink,
            way=road.way,
            port=road.probe_port,
            down=down,
            shortest_bytes=self.shortest,
            longest_bytes=LONGEST,
            step_bytes=STEP,
            tries=self.tries,
            pause_us=self.pause_us,
            trains=self.trains,
            train_packets=self.train_packets,
            meeting=meeting,
        )


def plan(down: bool, bps: float | None, paid: bool = False) -> Plan:
    """`bps` as it was last measured; None: not known."""
    shortest = SHORTEST_DOWN if down else SHORTEST_UP
    longest_us = (LONGEST + HEADERS) * 8e6 / bps if bps else 0.0
    pause_us = min(max(PAUSE_US, round(APART * longest_us)), LONGEST_PAUSE_US)
    if paid:
        return Plan(shortest, TRIES_PAID, pause_us, TRAINS_PAID, TRAIN_PACKETS_PAID)
    if bps is not None and bps > FAST_BPS:
        return Plan(shortest, TRIES_FAST, PAUSE_FAST_US, TRAINS, TRAIN_PACKETS)
    return Plan(shortest, TRIES, pause_us, TRAINS, TRAIN_PACKETS)
