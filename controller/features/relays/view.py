# SPDX-License-Identifier: Apache-2.0
"""The types of the relays' view: parts of a Snapshot, and the answer to `why --relay`."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.relaying import Choosing, Fallback
from controller.protocol.reports import RelayReport, TerminalInterception


@dataclass(frozen=True, slots=True)
class ReachedView:
    """A relay as one gateway reports it."""

    gateway: str
    reason: str | None  # why it is unreachable
    connections: int  # open connections through it
    opened: int  # spare connections, opened in advance
    setup_ms: float | None  # TCP and TLS setup of the last connection
    rtt_ms: float | None  # as measured
    age_s: float | None  # of rtt_ms


@dataclass(frozen=True, slots=True)
class RelayView:
    name: str
    address: str
    port: int
    allowed: tuple[str, ...]  # ports of servers that it reaches, FIRST-LAST
    congestion: str | None  # congestion control from the override; null: the kernel's default
    draining: bool
    reporting: bool  # its agent is connected
    why_not: str | None  # why it is not up, or not known to be; null: it is up
    report: RelayReport | None  # its last report
    age_s: float | None  # of the last report
    reached: tuple[ReachedView, ...]


@dataclass(frozen=True, slots=True)
class InterceptionView:
    """A site whose terminals' TCP is intercepted."""

    gateway: str
    choose: Choosing
    fallback: Fallback
    why_not: str | None  # why it does not intercept as ordered, or is not known to
    terminals: tuple[TerminalInterception, ...]
    places: int  # recently used destinations
    chosen: int  # those with a choice


@dataclass(frozen=True, slots=True)
class LegView:
    start: str  # a gateway or a relay
    end: str  # a relay, or an address
    rtt_ms: float | None
    age_s: float | None
    reason: str | None  # why it is not known
    routers: tuple[str, ...]  # on the path, the nearest first; empty: a silent router


@dataclass(frozen=True, slots=True)
class ChoiceView:
    method: Choosing
    relays: tuple[str, ...]  # empty: direct
    reason: str
    predicted_bps: float | None
    direct_bps: float | None


@dataclass(frozen=True, slots=True)
class DestinationView:
    """The path of one site's connections to a destination."""

    gateway: str
    prefix: str  # that contains it
    address: str  # that represents the prefix
    choice: ChoiceView | None  # null: none yet; connections take the relay with the fastest setup
    made: bool  # from its own measurements; otherwise all connections go alike
    legs: tuple[LegView, ...]
    otherwise: tuple[ChoiceView, ...]  # what other methods would choose now


@dataclass(frozen=True, slots=True)
class TriedView:
    """A relay and its predictions."""

    relay: RelayView
    destinations: tuple[DestinationView, ...]  # empty: none was requested
