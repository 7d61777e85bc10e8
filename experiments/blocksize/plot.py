"""Paper 003's figure 4, what it does not show of the same uploads, and its figures 5 to 13, as one picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments import paper003
from experiments.blocksize.lab import GOODPUT_BPS
from experiments.blocksize.plan import MOST_BYTES, TERMINALS, TRACED_BYTES, said
from experiments.blocksize.runs import Run

FIRST_TRACE = 5  # of the paper's figures
COLOURS = {1: "tab:blue", 2: "tab:orange", 3: "tab:green"}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    figure = Figure(figsize=(14, 15), layout="constrained")
    FigureCanvasAgg(figure)
    (together, fair, unsent), *traces = figure.subplots(1 + len(TERMINALS), 3)
    _by_block(together, good, lambda run: run.bps / 1e6, "together, Mbit/s (the paper's figure 4)")
    together.axhline(GOODPUT_BPS / 1e6, color="grey", linestyle=":", label="what the air lets through")
    _paper(together)
    together.set_ylim(bottom=0)
    _by_block(fair, good, lambda run: run.jain, "Jain's index of the terminals")
    _by_block(unsent, good, lambda run: run.unsent_bytes / 1e3, "most unsent in a socket, kB")
    for panel in (together, fair, unsent):
        panel.legend(fontsize="small")
    places = product(range(len(TERMINALS)), range(len(TRACED_BYTES)))
    for number, (row, column) in enumerate(places, FIRST_TRACE):
        _trace(traces[row][column], number, TERMINALS[row], TRACED_BYTES[column], good)
    figure.savefig(file, dpi=120)
    return file


def _by_block(panel: Axes, runs: Sequence[Run], of: Callable[[Run], float], label: str) -> None:
    for terminals in TERMINALS:
        those = [run for run in runs if run.task.terminals == terminals]
        found: dict[tuple[bool, int], list[float]] = {}
        for run in those:
            found.setdefault((run.task.low_water_bytes > 0, run.task.block_bytes), []).append(of(run))
        points = [(block, median(each)) for (marked, block), each in found.items() if not marked]
        name = f"{terminals} terminal{'s' if terminals > 1 else ''}"
        panel.plot([at for at, _ in points], [value for _, value in points], "o-", color=COLOURS[terminals], label=name)
        marked = [each for (low, _), those in found.items() if low for each in those]
        panel.plot([MOST_BYTES] * len(marked), marked, "x", color=COLOURS[terminals], label=f"{name}, with a mark")
    panel.set_xscale("log", base=2)
    panel.set_xlabel("bytes of each write")
    panel.set_ylabel(label)


def _paper(panel: Axes) -> None:
    for one in paper003.said():
        if one.unit == "Mbit/s" and one.value is not None and one.what.startswith("throughput"):
            span = [one.least_block_bytes, one.most_block_bytes]
            label = f"paper 003, {one.terminals}: {one.value:g}"
            panel.plot(span, [one.value] * 2, "--", color=COLOURS[one.terminals], label=label)


def _trace(panel: Axes, number: int, terminals: int, block_bytes: int, runs: Sequence[Run]) -> None:
    """Of the first of these."""
    those = [run for run in runs if (run.task.terminals, run.task.block_bytes) == (terminals, block_bytes)]
    for run in [run for run in those if not run.task.low_water_bytes][:1]:
        began = min(one.began for one in run.uploads)
        for terminal, one in enumerate(run.uploads, 1):
            since_s = [moment - began for moment in one.moments]
            panel.plot(since_s, one.window_segments, color=COLOURS[terminal], label=f"terminal {terminal}")
        panel.legend(fontsize="small")
    panel.set_title(
        f"figure {number}: {terminals} at the access point, writes of {said(block_bytes)}", fontsize="medium"
    )
    panel.set_xlabel("s")
    panel.set_ylabel("congestion window, segments")
