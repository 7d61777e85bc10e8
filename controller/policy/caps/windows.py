# SPDX-License-Identifier: Apache-2.0
"""The window of a connection, by the rule `ideal` or by the printed tables of paper 000.

Hysteresis: a window that would fall by less than 5 % stays, and a row of the tables yields only to one that fits with
5 % to spare.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from enum import IntEnum

from controller.model.config import AccessPoint, CapRule, CapTables
from controller.policy.paths.evidence import QUEUE_US

# The tables of paper 000, as printed: congestion windows by the number of senders and the growth of round trips, for
# Android's two versions. Case A: the shortest round trip is below 100 ms. The paper ends at ten terminals: beyond, the
# last row shrinks as their number grows, down to two segments.

CASE_B_FROM_US = 100_000
LEAST_MAX, LEAST_MIN = 2, 1  # lower bounds beyond the printed rows


class Case(IntEnum):
    A = 0
    B = 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the sum of a terminal's congestion windows, in segments."""

    most: int
    least: int

    def smaller(self, other: Bounds) -> Bounds:
        return Bounds(min(self.most, other.most), min(self.least, other.least))


Row = tuple[int, int, int, int]  # max and min in case A, max and min in case B

# Table 2: from one terminal to ten
BY_TERMINALS: dict[CapTables, tuple[Row, ...]] = {
    CapTables.GINGERBREAD: (
        (21, 20, 63, 62),
        (16, 15, 63, 62),
        (11, 10, 46, 45),
        (9, 8, 36, 35),
        (7, 6, 28, 27),
        (5, 4, 23, 22),
        (4, 3, 21, 20),
        (3, 2, 17, 16),
        (2, 1, 15, 14),
        (2, 1, 14, 13),
    ),
    CapTables.JELLY_BEAN: (
        (90, 80, 555, 250),
        (80, 60, 300, 300),
        (60, 50, 400, 250),
        (40, 30, 200, 120),
        (25, 20, 150, 100),
        (20, 10, 100, 80),
        (12, 8, 80, 70),
        (8, 5, 70, 50),
        (7, 3, 50, 30),
        (4, 2, 35, 20),
    ),
}

# Table 3: the same rows of ratios for both versions
RATIOS: dict[Case, tuple[float, ...]] = {
    Case.A: (1.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0),
    Case.B: (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
}
BY_RATIO: dict[CapTables, tuple[Row, ...]] = {
    CapTables.GINGERBREAD: (
        (63, 62, 63, 62),
        (61, 60, 62, 60),
        (58, 55, 56, 53),
        (53, 50, 48, 45),
        (48, 45, 42, 40),
        (41, 40, 36, 34),
        (36, 35, 26, 25),
        (31, 30, 21, 20),
        (26, 25, 21, 20),
        (21, 20, 11, 10),
    ),
    CapTables.JELLY_BEAN: (
        (100, 80, 555, 300),
        (80, 60, 300, 100),
        (60, 50, 200, 90),
        (50, 40, 100, 80),
        (40, 30, 90, 50),
        (30, 20, 50, 30),
        (20, 10, 30, 20),
        (10, 5, 20, 10),
        (4, 3, 8, 4),
        (3, 2, 3, 2),
    ),
}


def by_terminals(tables: CapTables, case: Case, active: int) -> Bounds:
    rows = BY_TERMINALS[tables]
    last = len(rows)
    bounds = _bounds(rows[min(max(active, 1), last) - 1], case)
    if active <= last:
        return bounds
    return Bounds(max(LEAST_MAX, bounds.most * last // active), max(LEAST_MIN, bounds.least * last // active))


def by_ratio(tables: CapTables, case: Case, row: int) -> Bounds:
    return _bounds(BY_RATIO[tables][row], case)


def row_of(case: Case, ratio: float) -> int:
    """Return the row of a ratio. Ratios below 1, brief effects of smoothing, have the first row."""
    return max(0, bisect_right(RATIOS[case], ratio) - 1)


def _bounds(row: Row, case: Case) -> Bounds:
    return Bounds(row[2 * case], row[2 * case + 1])


SEGMENT_BYTES = 1500
SEGMENT_US = 8 * SEGMENT_BYTES * 1_000_000  # transmission time of a segment at 1 bit/s
TURNS_US = 2000  # processing of a packet at both hosts and in the air, on busy machines
FEWEST_SEGMENTS = 2  # a receiver delays the acknowledgement of a single segment
MOST_SEGMENTS = 1 << 20  # above TCP's largest window
# A pace counts payload, and headers use the air too: 66 bytes of 1514. The rest is margin: paces that exceed the
# bandwidth together would fill the queue again.
PACED_PART = 0.92
LEFT_AT = 0.95  # hysteresis: a fall to more than this part leaves a window or row as it is
# Upper limit, in equal shares, while caps are released: below 1 the queue drains if all senders have caps.
RELEASED_SHARE = 0.95
WON_SHARES = 2.0  # the same for a sender without a lower limit: it must compete for its share


@dataclass(frozen=True, slots=True)
class Window:
    most: int
    least: int = 0  # 0: none
    pace_bps: int = 0  # 0: no bound
    queues: bool = False  # the path has a queue, so there is no lower limit
    released: bool = False  # caps are released: the window grows with the round trip
    case: Case = Case.A  # column of the paper's tables
    row: int = 0  # in table 3 of the paper


@dataclass(frozen=True, slots=True)
class AirtimeShare:
    """One terminal's share of an access point, and the connections that divide it."""

    access_point: AccessPoint
    active: int  # terminals
    connections: int  # of this terminal

    def fitting(self, rtt_us: int) -> int:
        return self._part(rtt_us + self.spare_us(rtt_us))

    def spare_us(self, rtt_us: int) -> int:
        """Return TURNS_US, or 0 if this margin for all terminals would make a queue longer than the path."""
        roomy = (self._part(rtt_us + TURNS_US) + 1) * self.active
        return TURNS_US if roomy * SEGMENT_US <= 2 * self.bandwidth_bps * rtt_us else 0

    def _part(self, rtt_us: int) -> int:
        """Return the share of the bandwidth-delay product, plus one segment for all terminals together.

        The shortest round trip comes from a small packet. A full segment takes longer by its own transmission time.
        """
        return -(-(self.bandwidth_bps * rtt_us + SEGMENT_US) // (SEGMENT_US * max(1, self.active)))

    @property
    def wants_bandwidth(self) -> bool:
        return self.access_point.rule is CapRule.IDEAL and self.access_point.bandwidth_bps is None

    @property
    def bandwidth_bps(self) -> int:
        assert self.access_point.bandwidth_bps is not None, "no window exists while the bandwidth is unknown"
        return self.access_point.bandwidth_bps


def window(part: AirtimeShare, rtt_us: int, srtt_us: int, before: Window | None) -> Window:
    """Return the window of a connection. `before` is None if more than round trips has changed."""
    if part.access_point.rule is CapRule.PAPER:
        return _paper(part, rtt_us, srtt_us, before)
    return _ideal(part, rtt_us, srtt_us, before)


def released(part: AirtimeShare, one: Window, srtt_us: int, least_bps: float, shares: float) -> Window:
    """Return the window while caps are released (release.py).

    It allows `shares` equal shares at the current round trip, and at least `least_bps`.
    """
    each = SEGMENT_US * part.connections
    fitting = shares * part.bandwidth_bps * srtt_us / max(1, part.active) / each
    most = min(max(one.most, math.floor(fitting)), MOST_SEGMENTS)
    least = min(max(one.least, math.floor(least_bps * srtt_us / each)), most - 1)
    return replace(one, most=most, least=least, pace_bps=one.pace_bps if most == one.most else 0, released=True)


def bounds(part: AirtimeShare, one: Window) -> tuple[Bounds, Bounds]:
    tables = part.access_point.tables
    return by_terminals(tables, one.case, part.active), by_ratio(tables, one.case, one.row)


def _ideal(part: AirtimeShare, rtt_us: int, srtt_us: int, before: Window | None) -> Window:
    target = part.fitting(rtt_us) + 1
    most = min(max(FEWEST_SEGMENTS, -(-target // part.connections)), MOST_SEGMENTS)
    if before and LEFT_AT * before.most <= most < before.most:
        most = before.most
    pace_bps = 0
    if FEWEST_SEGMENTS * part.connections > target:
        pace_bps = max(1, int(PACED_PART * part.bandwidth_bps / max(1, part.active) / part.connections))
    queues = _queues(rtt_us, srtt_us, bool(before and before.queues))
    return Window(most, 0 if queues else most - 1, pace_bps, queues)


def _queues(rtt_us: int, srtt_us: int, before: bool) -> bool:
    """Return whether the path has a queue, of others' packets or from before the cap.

    A lower limit would keep it full. Loss alone does not lengthen a round trip.
    """
    above_us = 2 * rtt_us + QUEUE_US
    return srtt_us > (above_us * 3 // 4 if before else above_us)


def _paper(part: AirtimeShare, rtt_us: int, srtt_us: int, before: Window | None) -> Window:
    was_far = before is not None and before.case is Case.B
    case = Case.B if rtt_us >= CASE_B_FROM_US * (LEFT_AT if was_far else 1) else Case.A
    ratio = srtt_us / rtt_us
    row = row_of(case, ratio)
    if before and before.case is case and row < before.row <= row_of(case, ratio / LEFT_AT):
        row = before.row
    by_number, by_growth = bounds(part, Window(0, case=case, row=row))
    of_terminal = by_number.smaller(by_growth)
    most = max(FEWEST_SEGMENTS, of_terminal.most // part.connections)
    return Window(most, min(most, of_terminal.least // part.connections), case=case, row=row)
