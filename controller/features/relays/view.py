# SPDX-License-Identifier: Apache-2.0
"""The types of the relays' view: parts of a Snapshot, and the answer to `why --relay`."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.relaying import Choosing, Fallback
from controller.protocol.reports import RelayReport, TerminalTaken


@dataclass(frozen=True, slots=True)
class ReachedView:
    """A relay as one gateway has it."""

    gateway: str
    reason: str | None  # why it is not reached; null: it is
    connections: int  # by it, now
    opened: int  # in store
    setup_ms: float | None  # TCP and TLS of the last that was opened
    rtt_ms: float | None  # as it was walked; null: not known
    age_s: float | None  # of that


@dataclass(frozen=True, slots=True)
class RelayView:
    name: str
    address: str
    port: int
    allowed: tuple[str, ...]  # ports of servers that it reaches, FIRST-LAST
    congestion: str | None  # that is wished for; null: as its kernel likes
    draining: bool
    heard: bool  # its agent is in session
    why_not: str | None  # why it does not stand, or it is not known to; null: it does
    told: RelayReport | None  # as it told of itself last
    age_s: float | None  # of that
    reached: tuple[ReachedView, ...]


@dataclass(frozen=True, slots=True)
class InterceptionView:
    """A site whose terminals' TCP is taken."""

    gateway: str
    choose: Choosing
    fallback: Fallback
    why_not: str | None  # why nothing is taken, or not as it was ordered last, or it is not known to be; null: it is
    terminals: tuple[TerminalTaken, ...]
    places: int  # destinations that were sought of late
    chosen: int  # those of them for which a choice stands


@dataclass(frozen=True, slots=True)
class LegView:
    start: str  # a gateway or a relay
    end: str  # a relay, or an address
    rtt_ms: float | None  # null: not known
    age_s: float | None
    reason: str | None  # why it is not known
    routers: tuple[str, ...]  # on the way, the nearest first; empty ones do not say who they are


@dataclass(frozen=True, slots=True)
class ChoiceView:
    method: Choosing
    relays: tuple[str, ...]  # none: directly
    reason: str
    predicted_bps: float | None
    direct_bps: float | None


@dataclass(frozen=True, slots=True)
class DestinationView:
    """By what one site's connections reach a destination."""

    gateway: str
    prefix: str  # of which it is
    address: str  # that stands for all of them
    choice: ChoiceView | None  # null: none is made yet, and it goes by the relay that was reached fastest
    made: bool  # by what was walked for it; else every connection goes alike
    legs: tuple[LegView, ...]
    otherwise: tuple[ChoiceView, ...]  # what other methods would choose now


@dataclass(frozen=True, slots=True)
class TriedView:
    """A relay, and what is predicted of it."""

    relay: RelayView
    destinations: tuple[DestinationView, ...]  # none: none was asked for
