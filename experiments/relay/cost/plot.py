"""The ways side by side: each transfer's rate, what it costs, and when each connection's first byte came."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.relay.cost.plan import DOWN, UP
from experiments.relay.cost.results import ENDS, for_a_gbit
from experiments.relay.cost.runs import Moved, Reached, Run
from experiments.relay.cost.ways import NAMES

BESIDE = {DOWN: -0.15, UP: 0.15}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    transfers = [run for run in good if isinstance(run, Moved) and run.whole]
    figure = Figure(figsize=(14, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    rates, costs, firsts = figure.subplots(1, 3)
    _rates(rates, transfers)
    _costs(costs, transfers)
    for run in good:
        if isinstance(run, Reached):
            place = NAMES.index(run.way)
            firsts.plot([place] * len(run.first_ms), run.first_ms, ".", color="tab:blue")
    firsts.set_ylabel("first byte, relay half way, ms")
    firsts.set_ylim(bottom=0)
    for panel in (rates, costs, firsts):
        panel.set_xticks(range(len(NAMES)), NAMES)
    figure.savefig(file, dpi=120)
    return file


def _rates(panel: Axes, runs: Sequence[Moved]) -> None:
    for run in runs:
        color = "tab:blue" if run.direction == DOWN else "tab:orange"
        panel.plot(NAMES.index(run.way) + BESIDE[run.direction], run.gbps, ".", color=color)
    panel.set_yscale("log")
    panel.set_ylabel("Gbit/s of each transfer, down (blue) and up")


def _costs(panel: Axes, runs: Sequence[Moved]) -> None:
    """The gateway's below."""
    for (name, direction), found in groupby(sorted(runs, key=_place), key=_place):
        those, foot = list(found), 0.0
        for end, color in zip(ENDS, ("tab:blue", "tab:cyan"), strict=True):
            height = for_a_gbit(those, end)
            panel.bar(NAMES.index(name) + BESIDE[direction], height, 0.25, foot, color=color)
            foot += height
    panel.set_ylabel("s of a processor a Gbit, down and up:\ngateway (blue), relay (cyan)")


def _place(run: Moved) -> tuple[str, str]:
    return run.way, run.direction
