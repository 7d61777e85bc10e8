"""The switches of `experiment switching`, with all that was promised of them."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.switching import CAMPAIGN
from experiments.switching.plan import QUICK
from lab.results.figures import Figure


def measure() -> Iterator[Figure]:
    return CAMPAIGN.bench(QUICK)
