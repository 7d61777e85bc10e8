# SPDX-License-Identifier: Apache-2.0
"""The estimation of rates from the packets of a probe, outside the core's thread."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from controller.features.probing.path_record import Estimate, Estimated
from controller.model.text import counted
from controller.policy.bandwidth import estimators
from controller.policy.bandwidth.estimators import SURE, UNSURE_PART, Numbers, Samples, calibrated, one_way, rate
from controller.policy.bandwidth.rates import CALIBRATED, UNCALIBRATED, Alpha, Unknown, rate_text
from controller.protocol.reports import ProbePacket

HEADERS_BYTES = {"udp": 42, "udp6": 62}  # of Ethernet, IP and UDP
ETHERNET_BYTES = 14
LOST_FOR_THEIR_LENGTH = 3  # packets; fewer may be chance
FIELDS = ("train", "length", "sent_ns", "received_ns", "answered_ns", "returned_ns")
TIMES = FIELDS[2:]
LONGEST_BYTES = 65_507
LATEST_NS = 1 << 63


class Unreadable(Exception):
    """A malformed probe."""


@dataclass(frozen=True, slots=True)
class ProbeSamples:
    """Single packets and trains, with arrival times and bytes on the wire."""

    sent: int
    samples: Samples
    trains: tuple[tuple[Numbers, Numbers], ...]
    lost: int
    longest_came: int
    longer_lost: int  # packets
    over: str  # udp or udp6
    down: bool = False  # from the far end to the near end

    @property
    def mtu_bytes(self) -> int | None:
        """The longest IP packet that arrived, if enough longer ones were lost."""
        if self.longer_lost < LOST_FOR_THEIR_LENGTH:
            return None
        return self.longest_came + HEADERS_BYTES[self.over] - ETHERNET_BYTES

    @property
    def reordered(self) -> int:
        """The number of packets that arrived after one that was sent later (RFC 4737)."""
        later = np.minimum.accumulate(self.samples.received[::-1])[::-1]
        return int((self.samples.received[:-1] > later[1:]).sum())


def read(text: str) -> ProbeSamples:
    lines = text.splitlines()
    rate_text = lines[0].split() if lines and lines[0].startswith("#") else []
    over = "udp6" if "transport=udp6" in rate_text else "udp"
    return of_packets(list(_packets(lines)), over, "direction=down" in rate_text)


def of_packets(packets: Sequence[ProbePacket], over: str, down: bool = False) -> ProbeSamples:
    """Return the samples of packets in sending order. Down packets come in request order and are sorted."""
    alone = [packet for packet in packets if packet.train == 0]
    timed = [packet for packet in alone if packet.timed]
    if down:
        timed.sort(key=lambda packet: packet.sent_ns or 0)
    if not timed:
        sent = counted(len(alone), "packets")
        raise Unreadable(f"{sent} sent one by one, none of which arrived: expected some to estimate a rate from")
    origin = timed[0].sent_ns or 0
    table = np.array([[packet.length, *_since(origin, packet)] for packet in timed])
    longest = max(packet.length for packet in alone if packet.came)
    return ProbeSamples(
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
    """Yield times relative to the origin: nanoseconds since 1970 do not fit into a double."""
    for at in (packet.sent_ns, packet.received_ns, packet.answered_ns, packet.returned_ns):
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


# Estimation may take a second: an effect starts it outside the core's thread, and an event returns the result.

T = TypeVar("T")

MOST_S_PER_BYTE = 20e-9  # of hosts, which take 0.1 to 2 ns here; more means another link or a wrong rate


def estimated(order: Estimate) -> Estimated:
    try:
        probed = of_packets(order.probed.packets, order.probed.transport, order.down)
    except Unreadable as unreadable:
        nothing = Unknown(str(unreadable))
        return Estimated(order, nothing, nothing, nothing if order.link_bps else None)
    with np.errstate(all="ignore"):  # the results are checked
        alpha = _or_unknown(partial(_alpha, probed.samples, order.link_bps)) if order.link_bps else None
        known = alpha if isinstance(alpha, Alpha) else order.alpha or UNCALIBRATED
        one_packet = _or_unknown(partial(rate, probed.samples, known))
        by_trains = _or_unknown(partial(estimators.rate_of_trains, probed.trains))
    return Estimated(order, one_packet, by_trains, alpha, probed.sent, probed.lost, probed.reordered, probed.mtu_bytes)


def _alpha(samples: Samples, link_bps: float) -> Alpha | Unknown:
    found = rate(samples, CALIBRATED)
    if isinstance(found, Unknown):
        return found
    alpha = calibrated(one_way(samples), link_bps)
    unsure = SURE * alpha.error + UNSURE_PART * 8 / link_bps
    if -unsure <= alpha.s_per_byte <= MOST_S_PER_BYTE + unsure:
        return alpha
    took = f"{alpha.s_per_byte * 1e9:.1f} ns a byte, expected 0 to {MOST_S_PER_BYTE * 1e9:.0f}"
    return Unknown(
        f"with a link of {rate_text(link_bps)}, these hosts would take {took}: this calibration is discarded"
    )


def _or_unknown(estimate: Callable[[], T]) -> T | Unknown:
    """Return the estimate, or the reason why there is none."""
    try:
        return estimate()
    except (ArithmeticError, ValueError, IndexError) as error:  # np.linalg.LinAlgError is a ValueError
        return Unknown(f"no line fits these packets ({error})")
