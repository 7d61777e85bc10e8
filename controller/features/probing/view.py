# SPDX-License-Identifier: Apache-2.0
"""The types of the measured paths' view: parts of a Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from controller.protocol.reports import HealthWindow


@dataclass(frozen=True, slots=True)
class MethodView:
    """What one method told last, or why it told nothing."""

    method: str
    bps: float | None
    least_bps: float | None
    most_bps: float | None
    age_s: float | None
    reason: str  # empty: it told


@dataclass(frozen=True, slots=True)
class DirectionView:
    """`up` is from the near end to the far one."""

    direction: str  # up or down
    bps: float | None  # what is to be had; None: it is not known
    least_bps: float | None
    most_bps: float | None  # None beside a figure: nothing tells how much more there may be
    age_s: float | None  # of the oldest of what it is made of
    methods: tuple[str, ...]  # that it is made of
    reason: str  # why it is not known; empty: it is
    by_method: tuple[MethodView, ...]
    alpha_ns_per_byte: float | None  # what these hosts take beside the link; None: nobody has calibrated them
    running: bool  # a probe was asked for, or begun, and what came of it is not told yet
    ended: int  # probes of which it is
    next_in_s: float | None  # None: no probe is planned
    error: str  # why the last probe was not whole; empty: it was
    sent: int  # packets alone, of the last probe
    lost: int
    reordered: int
    mtu_bytes: int | None  # of the path, where nothing longer came through; None: the longest packets did


@dataclass(frozen=True, slots=True)
class PathHealthView:
    """Of all small packets since both ends' agents last met, and of windows of 1, 10 and 60 s."""

    sent: int
    lost: int
    lost_there: int
    lost_back: int
    late: int
    windows: tuple[HealthWindow, ...]


@dataclass(frozen=True, slots=True)
class PathView:
    """An uplink between two sites that are each other's ends, or the air between a terminal and its gateway."""

    site: str  # whose uplinks these are, or whose terminal
    uplink: str  # or TERMINAL@ACCESS_POINT
    near: str  # the agent that measures
    far: str  # and the one that answers
    why_not: str | None  # None: it is measured
    health: PathHealthView | None  # None: nothing was told of it yet
    directions: tuple[DirectionView, ...]  # up and down; none where it cannot be measured
