"""What one probe sends, for how long, and how many bytes that is.

Packets that wait for one another tell nothing: so the slower a road is known to be, the longer the pause between them,
also where it is the small ones whose way is slow. Of a road that nobody has probed yet it is not known how slow it is.
On a fast one the time that a packet takes is little beside the time of a processor, and more of them have to tell it.
On a slow one, and where each byte is paid for, there are as few as tell anything.
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
TRAINS_FEW, TRAIN_PACKETS_PAID = 8, 18
SLOW_BPS, FAST_BPS = 2e6, 50e6
TRIES, TRIES_FAST, TRIES_FEW = 10, 100, 3
PAUSE_US, PAUSE_FAST_US = 10_000, 1_000
PAUSE_NEW_US = 40_000  # 0.3 Mbit/s
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


def plan(down: bool, bps: float | None, paid: bool = False, back_bps: float | None = None, new: bool = False) -> Plan:
    """`bps` as it was last measured, and of the other direction; None: not known. `new`: nobody has tried it yet."""
    shortest = SHORTEST_DOWN if down else SHORTEST_UP
    long_us, small_us = _apart_us(LONGEST + HEADERS, bps), _apart_us(SMALL, back_bps)
    if bps is not None and bps > FAST_BPS and small_us <= PAUSE_US and not paid:
        return Plan(shortest, TRIES_FAST, max(PAUSE_FAST_US, small_us), TRAINS, TRAIN_PACKETS)
    pause_us = min(max(PAUSE_NEW_US if new else PAUSE_US, long_us, small_us), LONGEST_PAUSE_US)
    if paid:
        return Plan(shortest, TRIES_FEW, pause_us, TRAINS_FEW, TRAIN_PACKETS_PAID)
    if new or (bps is not None and bps < SLOW_BPS):
        return Plan(shortest, TRIES_FEW, pause_us, TRAINS_FEW, TRAIN_PACKETS)
    return Plan(shortest, TRIES, pause_us, TRAINS, TRAIN_PACKETS)


def _apart_us(length: int, bps: float | None) -> int:
    return round(APART * length * 8e6 / bps) if bps else 0
