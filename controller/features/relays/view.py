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
    connections: int  # open through it
    opened: int  # spare, opened in advance
    setup_ms: float | None  # last TCP and TLS setup
    rtt_ms: float | None  # as measured
    age_s: float | None  # of rtt_ms


@dataclass(frozen=True, slots=True)
class RelayView:
    name: str
    address: str
    port: int
    allowed: tuple[str, ...]  # server ports, FIRST-LAST
    congestion: str | None  # null: the kernel's default
    draining: bool
    heard: bool  # connected
    why_not: str | None  # null: it is up
    told: RelayReport | None  # its last report
    age_s: float | None  # of the report
    reached: tuple[ReachedView, ...]


@dataclass(frozen=True, slots=True)
class InterceptionView:
    """A site whose terminals' TCP is intercepted."""

    gateway: str
    choose: Choosing
    fallback: Fallback
    why_not: str | None  # why it does not intercept as ordered
    terminals: tuple[TerminalInterception, ...]
    places: int  # recently used destinations
    chosen: int  # those with a choice


@dataclass(frozen=True, slots=True)
class LegView:
    start: str  # gateway or relay
    end: str  # relay or address
    rtt_ms: float | None
    age_s: float | None
    reason: str | None
    routers: tuple[str, ...]  # nearest first; empty: silent


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
    address: str  # represents the prefix
    choice: ChoiceView | None  # null: none yet; the fastest setup wins
    made: bool  # from its own measurements; otherwise all connections go alike
    legs: tuple[LegView, ...]
    otherwise: tuple[ChoiceView, ...]  # of other methods


@dataclass(frozen=True, slots=True)
class TriedView:
    """A relay and its predictions."""

    relay: RelayView
    destinations: tuple[DestinationView, ...]  # empty: none requested
