# SPDX-License-Identifier: Apache-2.0
"""The TCP flows of a terminal, as reports show them, and the rate that they deliver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from itertools import islice

from controller.protocol.reports import MOST_SUBFLOWS, Connection, Passing, Subflow

MOST_RTT_US = 60_000_000  # above this a report is wrong
MOST_BYTES = 10**15  # per connection: three months at 1 Gbit/s
SHORTEST_ABOVE_US = 10_000  # tolerance: a smoothed round trip is briefly below the shortest

TcpFlowKey = tuple[str, int, str, int]  # address and port of the terminal's end, and of the other
Pair = tuple[str, str]  # address of the terminal, and of the other end


@dataclass(frozen=True, slots=True)
class TcpFlow:
    """A TCP connection, or a subflow of an MPTCP connection."""

    key: TcpFlowKey
    token: int  # of its MPTCP connection; 0: plain TCP, or unknown to a gateway
    bytes_sent: int  # acknowledged in total
    srtt_us: int | None
    min_rtt_us: int | None
    waits: bool = False  # for acknowledgements
    joined: bool = False  # a further subflow of an unknown connection

    @property
    def terminal_address(self) -> str:
        return self.key[0]

    @property
    def other_address(self) -> str:
        return self.key[2]

    @property
    def pair(self) -> Pair:
        return self.terminal_address, self.other_address

    @property
    def connection(self) -> TcpFlowKey | int:
        """Return a key that the subflows of a connection share."""
        return self.token or self.key


def of_connections(connections: Iterable[Connection]) -> tuple[TcpFlow, ...]:
    return tuple(_subflow(one.token, each) for one in connections for each in one.subflows)


def of_passing(passing: Iterable[Passing]) -> tuple[TcpFlow, ...]:
    return tuple(map(_passing, passing))


def wrong(flow: TcpFlow) -> str | None:
    """Return what is impossible about a reported flow, or None."""
    srtt_us, shortest_us = flow.srtt_us, flow.min_rtt_us
    if not _joins_two_hosts(flow.pair):
        return "a connection to an address that is not another host"
    if not 0 <= flow.bytes_sent <= MOST_BYTES:
        return "an impossible number of bytes"
    if srtt_us is not None and not 0 < srtt_us <= MOST_RTT_US:
        return "an impossible round trip"
    if shortest_us is not None and not 0 < shortest_us <= MOST_RTT_US:
        return "an impossible minimum round trip"
    if srtt_us is not None and shortest_us is not None and shortest_us > 2 * srtt_us + SHORTEST_ABOVE_US:
        return "a minimum round trip far above the smoothed one"
    return None


@lru_cache(maxsize=1 << 14)
def _joins_two_hosts(pair: Pair) -> bool:
    """Return whether these are unicast addresses of two hosts. An agent refuses a whole order for one bad pair."""
    try:
        terminal, other = both = tuple(map(ip_address, pair))
    except ValueError:
        return False
    hosts = not any(each.is_unspecified or each.is_loopback or each.is_multicast for each in both)
    return hosts and terminal.version == other.version and terminal != other


def _subflow(token: int, one: Subflow) -> TcpFlow:
    return TcpFlow(
        key=one.key,
        token=token,
        bytes_sent=one.bytes_acked,
        # With acknowledged bytes a round trip of 0 is wrong; without, it is unknown.
        srtt_us=one.srtt_us if one.srtt_us or one.bytes_acked else None,
        min_rtt_us=one.min_rtt_us or None,
        waits=one.in_flight_segments > 0,
    )


def _passing(one: Passing) -> TcpFlow:
    return TcpFlow(
        key=(one.terminal_address, one.terminal_port, one.other_address, one.other_port),
        token=0,
        bytes_sent=one.bytes_sent,
        srtt_us=one.srtt_us or None,
        min_rtt_us=one.min_rtt_us or None,
        waits=one.since_data_ms * 1000 < one.srtt_us,
        joined=one.joined,
    )


# Delivery within a second, by the reporter's own clock: a late report changes no rate
#
# A connection counts from its first report on.

OVER_S = 1.0  # window of the rate
NEARLY = 0.95  # share of the window that is enough: reports may come early
PACKET_BYTES, PAYLOAD_BYTES = 1500, 1448  # a packet as caps count it, and its acknowledged payload


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes delivered between two reports."""

    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class TerminalDelivery:
    """The deliveries of one terminal."""

    heard_at: float
    spans: tuple[Span, ...] = ()  # newest first; just enough for OVER_S
    known: Mapping[TcpFlowKey, int] = field(default_factory=dict)

    @property
    def bps(self) -> float | None:
        """Return the rate including headers. None: the reports do not cover OVER_S yet."""
        seconds = sum(span.seconds for span in self.spans)
        if seconds < NEARLY * OVER_S:
            return None
        return 8 * sum(span.bytes for span in self.spans) / seconds * PACKET_BYTES / PAYLOAD_BYTES


def delivery_after(
    before: TerminalDelivery | None, flows: Iterable[TcpFlow], seconds: float, now: float
) -> TerminalDelivery:
    """Return the deliveries after a report. `before` is None after a silence or a change of the reporter."""
    told = {flow.key: flow.bytes_sent for flow in islice(flows, MOST_SUBFLOWS) if wrong(flow) is None}
    if before is None or seconds <= 0:
        return TerminalDelivery(now, known=told)
    more = sum(max(0, sent - before.known.get(key, sent)) for key, sent in told.items())
    return TerminalDelivery(now, _latest((Span(seconds, more), *before.spans)), told)


def _latest(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    total = 0.0
    for number, span in enumerate(spans, 1):
        total += span.seconds
        if total >= NEARLY * OVER_S:
            return spans[:number]
    return spans
