"""The switches of `experiment switching --quick`, with all that was promised of them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure
from experiments import switching
from experiments.switching.results import figures
from experiments.switching.runs import QUICK


def measure() -> Iterator[Figure]:
    yield from figures(list(switching.measure(QUICK, switching.DIRECTORY)))
