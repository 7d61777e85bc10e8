"""The deaths of `experiment failover`, thrice each, with what was promised of the best way to survive them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from bench.figures import Figure
from experiments import failover
from experiments.failover.plan import QUICK
from experiments.failover.results import figures, keep_runs

ROUNDS = 3


def measure() -> Iterator[Figure]:
    runs = list(failover.measure(replace(QUICK, rounds=ROUNDS), failover.DIRECTORY))
    file = failover.DIRECTORY / "bench-runs.csv"
    keep_runs(runs, file)
    print(f"bench: every run is in {file}", file=sys.stderr, flush=True)
    yield from figures(runs)
