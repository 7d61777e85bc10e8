"""Paper 001's figures 7 to 10, for both sets: how the two ratios lie for ping's relays, and how they add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.relay.planet.choices import Pair, Run

STEP = 1 / 30  # the paper's
MOST = 1.5


def draw(runs: Sequence[Run], file: Path) -> Path:
    """Of the first planet."""
    first = [run for run in runs if run.seed == runs[0].seed]
    figure = Figure(figsize=(12, 4 * len(first)), layout="constrained")
    FigureCanvasAgg(figure)
    for (routers, delays), run in zip(figure.subplots(len(first), 2, squeeze=False), first, strict=True):
        _ratios(routers, run, lambda pair: pair.shared_ratio, (0.0, 0.5), "routers shared, of the direct way's")
        _ratios(delays, run, lambda pair: pair.near_ratio, (0.9, 1.0), "RTT of the nearest of them, of the direct RTT")
    figure.savefig(file, dpi=100)
    return file


def _ratios(panel: Axes, run: Run, ratio: Callable[[Pair], float | None], kept: tuple[float, float], what: str) -> None:
    told = [found for pair in run.relayed if (found := ratio(pair)) is not None]
    steps = np.arange(0, MOST + STEP, STEP)
    counts, _ = np.histogram(np.clip(told, 0, MOST - STEP / 2), steps)
    panel.axvspan(*kept, color="tab:green", alpha=0.15, label="what the filter keeps")
    panel.bar(steps[:-1], counts, STEP, align="edge", label=f"pairs, of {len(run.relayed)}")
    panel.set_xlabel(what)
    panel.set_ylabel("pairs in each 1/30")
    panel.set_title(run.set)
    sums = panel.twinx()
    sums.plot(steps[1:], np.cumsum(counts), color="tab:orange", label="added up")
    sums.set_ylim(0, len(run.relayed))
    sums.set_ylabel("pairs up to there")
    panel.legend(fontsize="small", loc="best")
