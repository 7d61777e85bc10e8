"""What one probe sends, for how long, and how many bytes that is.

Packets that wait for one another tell nothing: so the slower a road is known to be, the longer the pause between them.
On a fast one the time that a packet takes is little beside the time of a processor, and more of them have to tell it.
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
FAST_BPS = 50e6
TRIES, TRIES_FAST = 10, 100
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

    @property
    def lasts_s(self) -> float:
        return self.packets * self.pause_us / 1e6  # trains are as far apart as their packets would be

    @property
    def packets(self) -> int:
        return len(self._lengths) * self.tries + TRAINS * TRAIN_PACKETS

    @property
    def bytes(self) -> int:
        """In both directions."""
        long = self.tries * sum(self._lengths) + TRAINS * TRAIN_PACKETS * LONGEST
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
            trains=TRAINS,
            train_packets=TRAIN_PACKETS,
            meeting=meeting,
        )


def plan(down: bool, bps: float | None) -> Plan:
    """`bps` as it was last measured; None: not known."""
    shortest = SHORTEST_DOWN if down else SHORTEST_UP
    if bps is not None and bps > FAST_BPS:
        return Plan(shortest, TRIES_FAST, PAUSE_FAST_US)
    longest_us = (LONGEST + HEADERS) * 8e6 / bps if bps else 0.0
    return Plan(shortest, TRIES, min(max(PAUSE_US, round(APART * longest_us)), LONGEST_PAUSE_US))
