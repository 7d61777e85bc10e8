"""The deaths of `experiment failover`, thrice each, with what was promised of the best way to survive them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench.figures import Figure
from experiments import failover
from experiments.failover.plan import QUICK
from experiments.failover.results import figures

ROUNDS = 3


def measure() -> Iterator[Figure]:
    yield from figures(list(failover.measure(replace(QUICK, rounds=ROUNDS), failover.DIRECTORY)))
