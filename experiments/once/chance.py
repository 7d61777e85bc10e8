"""How many packets chance may take: the binomial distribution, without its farthest tails."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log
from statistics import NormalDist

SIGMAS = 4.5


def interval(tries: int, chance: float) -> tuple[int, int]:
    """Of a binomial distribution: below the one and above the other lies less than beyond SIGMAS of a normal one."""
    if chance in (0, 1):
        return round(tries * chance), round(tries * chance)
    beyond = NormalDist().cdf(-SIGMAS)
    odds = [_exactly(each, tries, chance) for each in range(tries + 1)]
    return _tail(odds, beyond), tries - _tail(odds[::-1], beyond)


def _exactly(hits: int, tries: int, chance: float) -> float:
    ways = lgamma(tries + 1) - lgamma(hits + 1) - lgamma(tries - hits + 1)
    return exp(ways + hits * log(chance) + (tries - hits) * log(1 - chance))


def _tail(odds: Sequence[float], beyond: float) -> int:
    """How many of the first together are less likely than that."""
    total = 0.0
    for number, each in enumerate(odds):
        total += each
        if total >= beyond:
            return number
    return len(odds)
