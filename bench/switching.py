"""The switches of `experiment switching --quick`, with all that was promised of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.figures import Figure
from experiments import switching
from experiments.switching.results import figures, keep_switches
from experiments.switching.runs import QUICK


def measure() -> Iterator[Figure]:
    runs = list(switching.measure(QUICK, switching.DIRECTORY))
    file = switching.DIRECTORY / "bench-switches.csv"
    keep_switches(runs, file)
    print(f"bench: every switch is in {file}", file=sys.stderr, flush=True)
    yield from figures(runs)
