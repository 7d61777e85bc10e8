"""Each transfer's rate, below what the line lets through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.relay.home.plan import ALONE, DOWN, MODES, UP
from experiments.relay.home.runs import LINE_BPS, Run


def draw(runs: Sequence[Run], file: Path) -> Path:
    hows = (ALONE, *MODES)
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, direction in zip(figure.subplots(1, 2, sharey=True), (DOWN, UP), strict=True):
        for run in runs:
            if not run.stalled and run.task.direction == direction:
                panel.plot(hows.index(run.task.how), run.bps / 1e6, "o", color="tab:blue")
        panel.axhline(LINE_BPS / 1e6, color="grey", linestyle=":", label="the line's limit")
        panel.set_xticks(range(len(hows)), hows)
        panel.set_yscale("log")
        panel.set_title(direction)
        panel.set_ylabel("Mbit/s")
        panel.legend(fontsize="small")
    figure.savefig(file, dpi=120)
    return file
