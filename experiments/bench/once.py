"""What `experiment once` counts, with what was promised of it."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.once import CAMPAIGN
from experiments.once.plan import QUICK
from lab.results.figures import Figure


def measure() -> Iterator[Figure]:
    return CAMPAIGN.bench(QUICK)
