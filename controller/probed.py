"""What `bicast-agent probe` writes (docs/probe.md), and what agents tell of a probe, as the estimators take it."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from controller.counting import counted
from controller.measures import ProbePacket
from controller.policy.bandwidth import Samples
from controller.policy.lines import Numbers

HEADERS_BYTES = {"udp": 42, "udp6": 62}  # of Ethernet, IP and UDP
ETHERNET_BYTES = 14
LOST_FOR_THEIR_LENGTH = 3  # packets: fewer may be chance
FIELDS = ("train", "length", "sent_ns", "received_ns", "answered_ns", "heard_ns")
TIMES = FIELDS[2:]
LONGEST_BYTES = 65_507
LATEST_NS = 1 << 63


class Unreadable(Exception):
    """Where, what was found, and what was expected."""


@dataclass(frozen=True, slots=True)
class Probed:
    """Packets alone, and trains of packets: when they arrived, and their bytes on the wire."""

    sent: int
    samples: Samples
    trains: tuple[tuple[Numbers, Numbers], ...]
    lost: int
    longest_came: int
    longer_lost: int  # packets
    over: str  # udp or udp6
    down: bool = False  # they came from the far end to here

    @property
    def mtu_bytes(self) -> int | None:
        """Of what nothing longer came through, as an IP packet has it; None: the longest did."""
        if self.longer_lost < LOST_FOR_THEIR_LENGTH:
            return None
        return self.longest_came + HEADERS_BYTES[self.over] - ETHERNET_BYTES

    @property
    def reordered(self) -> int:
        """Those that came after one that was sent later (RFC 4737)."""
        later = np.minimum.accumulate(self.samples.received[::-1])[::-1]
        return int((self.samples.received[:-1] > later[1:]).sum())


def read(text: str) -> Probed:
    lines = text.splitlines()
    said = lines[0].split() if lines and lines[0].startswith("#") else []
    over = "udp6" if "transport=udp6" in said else "udp"
    return of_packets(list(_packets(lines)), over, "direction=down" in said)


def of_packets(packets: Sequence[ProbePacket], over: str, down: bool = False) -> Probed:
    """In the order of sending; down, of asking: requests may have been overtaken."""
    alone = [packet for packet in packets if packet.train == 0]
    timed = [packet for packet in alone if packet.timed]
    if down:
        timed.sort(key=lambda packet: packet.sent_ns or 0)
    if not timed:
        sent = counted(len(alone), "packets")
        raise Unreadable(f"{sent} sent by themselves, of which none came: expected some to tell a rate by")
    origin = timed[0].sent_ns or 0
    table = np.array([[packet.length, *_since(origin, packet)] for packet in timed])
    longest = max(packet.length for packet in alone if packet.came)
    return Probed(
        len(alone),
        Samples(*table.T),
        tuple(_trains(packets, HEADERS_BYTES[over])),
        sum(not packet.came for packet in alone),
        longest,
        sum(packet.length > longest for packet in alone),
        over,
        down,
    )


def _since(origin_ns: int, packet: ProbePacket) -> Iterator[float]:
    """Nanoseconds since 1970 would not fit into a double."""
    for at in (packet.sent_ns, packet.received_ns, packet.answered_ns, packet.heard_ns):
        yield math.nan if at is None else (at - origin_ns) / 1e9


def _packets(lines: Sequence[str]) -> Iterator[ProbePacket]:
    told = [(number, line) for number, line in enumerate(lines, 1) if not line.startswith("#")]
    if not told or tuple(told[0][1].split(",")) != FIELDS:
        found = repr(told[0][1][:80]) if told else "nothing"
        raise Unreadable(f"found {found}, expected {','.join(FIELDS)}, as `bicast-agent probe` writes it")
    for (number, line), row in zip(told[1:], csv.reader(line for _, line in told[1:]), strict=True):
        try:
            yield _packet(row)
        except ValueError as error:
            raise Unreadable(f"line {number}: found {line[:80]!r}, expected {error}") from None


def _packet(row: Sequence[str]) -> ProbePacket:
    if len(row) != len(FIELDS):
        raise ValueError(f"{len(FIELDS)} values: {','.join(FIELDS)}")
    train, length = _whole(row[0], LATEST_NS), _whole(row[1], LONGEST_BYTES)
    return ProbePacket(train, length, *(_whole(value, LATEST_NS) if value else None for value in row[2:]))


def _whole(value: str, most: int) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and int(value) <= most):
        raise ValueError(f"whole numbers up to {most}, or nothing where a time is not known")
    return int(value)


def _trains(packets: Sequence[ProbePacket], headers_bytes: int) -> Iterator[tuple[Numbers, Numbers]]:
    trains: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for packet in packets:
        if packet.train and packet.received_ns is not None:
            trains[packet.train].append((packet.received_ns, packet.length))
    for those in trains.values():
        those.sort()
        moments = np.array([(at - those[0][0]) / 1e9 for at, _ in those])
        yield moments, np.array([length + headers_bytes for _, length in those], dtype=float)
