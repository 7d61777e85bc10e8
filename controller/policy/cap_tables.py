"""The tables of paper 000, as printed: congestion windows by how many terminals send, and by how round trips grew.

Each row has max and min of Android's two versions, for two cases: A where the shortest round trip is below 100 ms, B
from there on. A ratio's row begins with the ratio that it names. The paper ends at ten terminals: beyond, each has that
much less of the last row as there are more of them, and never less than two segments.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum

from controller.model import CapTables

CASE_B_FROM_US = 100_000
LEAST_MAX, LEAST_MIN = 2, 1  # of what the paper does not print


class Case(IntEnum):
    A = 0
    B = 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of a terminal's congestion windows together, in segments."""

    most: int
    least: int

    def smaller(self, other: Bounds) -> Bounds:
        """Each by itself."""
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
    """The first one also for what is less than 1, which a smoothed round trip may be for a moment."""
    return max(0, bisect_right(RATIOS[case], ratio) - 1)


def _bounds(row: Row, case: Case) -> Bounds:
    return Bounds(row[2 * case], row[2 * case + 1])
