"""Ten terminals on one access point, at 4 and at 64 ms: the ideal window beside none, with what was promised of it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure
from experiments.air import CAMPAIGN
from experiments.air.plan import SHORT


def measure() -> Iterator[Figure]:
    return CAMPAIGN.bench(SHORT)
