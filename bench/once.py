"""What `experiment once` counts, with what was promised of it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure
from experiments.once import CAMPAIGN
from experiments.once.plan import QUICK


def measure() -> Iterator[Figure]:
    return CAMPAIGN.bench(QUICK)
