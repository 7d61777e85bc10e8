# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot of the downloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure as Drawing

from experiments.relay.parallel.measure import Run
from experiments.relay.parallel.plan import ONE, TWO, WAY_BPS
from lab.results.figures import Figure, at_least, middle
from lab.results.pictures import save

GAIN = 1.8
HEADER = ("relays", "mbit_s", "whole")


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [one for one in runs if not one.stalled and one.whole]
    by = {relays: [one.bps / 1e6 for one in good if one.relays == relays] for relays in (ONE, TWO)}
    for relays, rates in by.items():
        if rates:
            yield middle(f"one download by {relays} of 2 relays, each on {WAY_BPS / 1e6:.0f} Mbit/s", rates, "Mbit/s")
    if all(by.values()):
        yield middle("  by two, of by one", [each / median(by[ONE]) for each in by[TWO]], "", at_least(GAIN))


def rows(one: Run) -> Iterator[tuple[object, ...]]:
    yield one.relays, f"{one.bps / 1e6:.3f}", "yes" if one.whole else "no"


def draw(runs: Sequence[Run], file: Path) -> Path:
    figure = Drawing(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    good = [one for one in runs if not one.stalled]
    axes.plot([one.relays for one in good], [one.bps / 1e6 for one in good], "o")
    axes.set_xticks((ONE, TWO))
    axes.set_xlabel("relays")
    axes.set_ylabel("Mbit/s")
    axes.set_ylim(bottom=0)
    return save(figure, file)
