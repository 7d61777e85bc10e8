# SPDX-License-Identifier: Apache-2.0
"""The types of the measured paths' view: parts of a Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from controller.protocol.reports import HealthWindow


@dataclass(frozen=True, slots=True)
class MethodView:
    """The last result of one method, or why it had none."""

    method: str
    bps: float | None
    least_bps: float | None
    most_bps: float | None
    age_s: float | None
    reason: str  # empty: there is a result


@dataclass(frozen=True, slots=True)
class DirectionView:
    """One direction of a path. `up` is from the near end to the far one."""

    direction: str  # up or down
    bps: float | None  # available bandwidth
    least_bps: float | None
    most_bps: float | None  # None beside a rate: there is no upper bound
    age_s: float | None  # of the oldest measurement in it
    methods: tuple[str, ...]
    reason: str  # why the rate is not known
    by_method: tuple[MethodView, ...]
    alpha_ns_per_byte: float | None  # cost of the hosts beside the link; None: not calibrated
    running: bool  # a probe is requested or running, without a result yet
    ended: int  # finished probes
    next_in_s: float | None  # None: no probe is planned
    error: str  # why the last probe was incomplete
    sent: int  # single packets of the last probe
    lost: int
    reordered: int
    mtu_bytes: int | None  # longest packet that arrived; None: no longer packet was lost


@dataclass(frozen=True, slots=True)
class PathHealthView:
    """The small packets since the last meeting of both agents, and in windows of 1, 10 and 60 s."""

    sent: int
    lost: int
    lost_there: int
    lost_back: int
    late: int
    windows: tuple[HealthWindow, ...]


@dataclass(frozen=True, slots=True)
class PathView:
    """An uplink between two peer sites, or the air between a terminal and its gateway."""

    site: str  # the site of the uplink or of the terminal
    uplink: str  # or TERMINAL@ACCESS_POINT
    near: str  # the agent that measures
    far: str  # the agent that answers
    why_not: str | None  # None: it is measured
    health: PathHealthView | None  # None: no report yet
    directions: tuple[DirectionView, ...]  # up and down; empty if it cannot be measured
