"""The deaths of `experiment failover`, thrice each, with what was promised of the best way to survive them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from experiments.failover import CAMPAIGN
from experiments.failover.plan import QUICK
from lab.results.figures import Figure

ROUNDS = 3


def measure() -> Iterator[Figure]:
    return CAMPAIGN.bench(replace(QUICK, rounds=ROUNDS))
