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
    least_segments: int  # 0: no lower limit
    pace_bps: int  # 0: no limit


@dataclass(frozen=True, slots=True)
class SharerView:
    terminal: str
    reporting: bool  # an agent reports it
    active: bool  # it sent recently
    connections: int
    rtt_ratio: float | None  # srtt / least RTT; None: not known
    most_segments: int | None  # of all its connections together; None: no cap
    least_segments: int | None
    windows: tuple[WindowView, ...]
    agent: str | None  # the agent that holds the caps
    method: str | None  # congestion-control, clamp or window
    instead: str | None  # why another agent than its own holds them
    held: bool  # the agent has accepted the caps and can hold all connections
    reason: str  # the figures, or why there is no cap, or why no agent holds it
    doubts: tuple[str, ...]  # implausible reports about it
    doubted: int  # since its first report


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """A measured bandwidth, where gateway.yaml gives none."""

    least_bps: float  # delivered at the last confirmation
    most_bps: float | None  # allowed but not reached; None: no more was tried
    age_s: float  # since the last confirmation
    by: str = "delivered"  # or packet trains, until a delivery says more


@dataclass(frozen=True, slots=True)
class AccessPointView:
    name: str
    gateway: str
    rule: CapRule
    tables: CapTables | None  # None: the rule uses no tables
    bandwidth_bps: int | None  # the divided bandwidth; None: not known
    measured: MeasuredView | None  # None: gateway.yaml gives it, or it is not known
    active: int  # terminals that share it now
    block_bytes: int | None  # best write size for applications; None: any
    released: str | None  # why windows grow with the round trip now; None: they do not
    missing: tuple[tuple[str, str], ...]  # gateway ports without a program, with the reason
    terminals: tuple[SharerView, ...]
