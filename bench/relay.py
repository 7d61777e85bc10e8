"""What `experiment relay`'s part `cost` measures, shorter, with what was promised of the pair."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure
from experiments.relay.cost import CAMPAIGN
from experiments.relay.cost.plan import SHORT


def measure() -> Iterator[Figure]:
    return CAMPAIGN.bench(SHORT)
