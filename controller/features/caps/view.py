# SPDX-License-Identifier: Apache-2.0
"""The types of the access points' view: parts of a Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.config import CapRule, CapTables


@dataclass(frozen=True, slots=True)
class WindowView:
    """Of each connection between these two."""

    terminal_address: str
    other_address: str
    most_segments: int
    least_segments: int  # 0: none
    pace_bps: int  # 0: no bound


@dataclass(frozen=True, slots=True)
class SharerView:
    terminal: str
    heard: bool  # somebody tells of it
    active: bool  # it has sent of late
    connections: int  # live ones
    rtt_ratio: float | None  # srtt / least RTT; None: not known
    most_segments: int | None  # of all its connections together; None: no cap
    least_segments: int | None
    windows: tuple[WindowView, ...]
    agent: str | None  # who holds them, None: nobody
    hand: str | None  # and how: congestion-control, clamp or window
    instead: str | None  # why its own agent does not hold them where somebody else does
    held: bool  # it has been told and has not refused, and can hold all of its connections
    reason: str  # the figures, or why it has no cap, or why nobody holds it
    doubts: tuple[str, ...]  # what was reported of it and not believed
    doubted: int  # how often, since it was first heard of


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """A bandwidth that nobody wrote."""

    least_bps: float  # that was delivered when it was confirmed last
    most_bps: float | None  # that was allowed, and did not come; None: no more was tried
    age_s: float  # since then
    by: str = "delivered"  # or what trains told, as long as nothing was delivered that told more


@dataclass(frozen=True, slots=True)
class AccessPointView:
    name: str
    gateway: str
    rule: CapRule
    tables: CapTables | None  # None: the rule follows none
    bandwidth_bps: int | None  # that is divided; None: it is not known
    measured: MeasuredView | None  # None: it is written in gateway.yaml, or not known
    active: int  # terminals that share it now
    block_bytes: int | None  # that programs on them had best write at once; None: as they like
    released: str | None  # why windows grow with the round trip for now; None: they do not
    missing: tuple[tuple[str, str], ...]  # ports of the gateway without a program, and why
    terminals: tuple[SharerView, ...]
