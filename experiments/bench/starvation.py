"""Terminals that are held beside one that nobody holds: what each gets of its share with the rule off."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from experiments.air.starvation.measure import Run, carry_out
from experiments.air.starvation.plan import MIXES
from experiments.air.starvation.report import figures
from lab.results.figures import Figure

TIMES = 2


def measure() -> Iterator[Figure]:
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="starvation-") as logs:
        for run in carry_out(MIXES, TIMES, Path(logs)):
            stalled = f"; NOT COUNTED, the machine stalled: {run.stalled}" if run.stalled else ""
            print(f"{run}{stalled}", file=sys.stderr, flush=True)
            runs.append(run)
    yield from figures(runs)
