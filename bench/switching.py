"""The switches of `experiment switching`, with all that was promised of them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure
from experiments.switching import CAMPAIGN
from experiments.switching.runs import QUICK


def measure() -> Iterator[Figure]:
    return CAMPAIGN.bench(QUICK)
