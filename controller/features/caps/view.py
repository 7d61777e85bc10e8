# SPDX-License-Identifier: Apache-2.0
"""The types of the access points' view: parts of a Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.config import CapRule, CapTables


@dataclass(frozen=True, slots=True)
class WindowView:
    """The window limits of each connection between two addresses."""

    terminal_address: str
    other_address: str
    most_segments: int
    least_segments: int  # 0: none
    pace_bps: int  # 0: no limit


@dataclass(frozen=True, slots=True)
class SharerView:
    terminal: str
    heard: bool  # an agent reports it
    active: bool  # it sent recently
    connections: int
    rtt_ratio: float | None  # srtt / least RTT
    most_segments: int | None  # of all its connections; None: no cap
    least_segments: int | None
    windows: tuple[WindowView, ...]
    agent: str | None
    hand: str | None  # congestion-control, clamp or window
    instead: str | None  # why not its own agent
    held: bool  # accepted, and all connections can be held
    reason: str  # the figures, or why no cap or no agent
    doubts: tuple[str, ...]  # implausible reports
    doubted: int  # since its first report


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """A measured bandwidth, where gateway.yaml gives none."""

    least_bps: float  # at the last confirmation
    most_bps: float | None  # allowed but not reached; None: no trial
    age_s: float  # since the last confirmation
    by: str = "delivered"  # or packet trains, before deliveries


@dataclass(frozen=True, slots=True)
class AccessPointView:
    name: str
    gateway: str
    rule: CapRule
    tables: CapTables | None  # None: not used
    bandwidth_bps: int | None  # divided; None: not known
    measured: MeasuredView | None  # None: given in gateway.yaml, or not known
    active: int  # terminals
    block_bytes: int | None  # best write size for applications
    released: str | None  # why windows grow with the round trip
    missing: tuple[tuple[str, str], ...]  # gateway ports without a program, and why
    terminals: tuple[SharerView, ...]
