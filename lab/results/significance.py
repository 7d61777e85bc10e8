# SPDX-License-Identifier: Apache-2.0
"""Tests of significance for few measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt
from statistics import mean

NORMAL_95 = 1.96


def sign_test(better: int, pairs: int) -> float:
    """Return the chance of so many better pairs, or more, if neither side were better."""
    return sum(comb(pairs, k) for k in range(better, pairs + 1)) * 0.5**pairs


def permutation_test(lower: Sequence[float], higher: Sequence[float]) -> float:
    """Return the chance that a random division of all values differs as much in this direction."""
    together = [*lower, *higher]
    least = mean(higher) - mean(lower)
    differences = []
    for chosen in combinations(range(len(together)), len(lower)):
        low = [together[index] for index in chosen]
        high = [value for index, value in enumerate(together) if index not in chosen]
        differences.append(mean(high) - mean(low))
    return sum(difference >= least - 1e-12 for difference in differences) / len(differences)


@dataclass(frozen=True, slots=True)
class Slope:
    value: float
    half_width: float  # of the 95 % interval
    n: int

    def overlaps(self, other: Slope) -> bool:
        return abs(self.value - other.value) <= self.half_width + other.half_width


def slope(points: Sequence[tuple[int, float, float]]) -> Slope:
    """Fit one slope through (group, x, y), with an intercept for each group."""
    groups = {group: [(x, y) for g, x, y in points if g == group] for group in {group for group, _, _ in points}}
    moved = []
    for those in groups.values():
        x_mean, y_mean = mean(x for x, _ in those), mean(y for _, y in those)
        moved += [(x - x_mean, y - y_mean) for x, y in those]
    width = sum(x * x for x, _ in moved)
    value = sum(x * y for x, y in moved) / width
    freedom = len(moved) - len(groups) - 1
    error = sqrt(sum((y - value * x) ** 2 for x, y in moved) / freedom / width)
    return Slope(value, NORMAL_95 * error, len(moved))
