# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot, beside paper 003's values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from experiments.blocksize.measure import GOODPUT_BPS, Run
from experiments.blocksize.plan import MOST_BYTES, TERMINALS, TRACED_BYTES, Task, format_size
from experiments.paper import paper003
from lab.results.figures import Figure, figure, middle, worst
from lab.results.pictures import save

HEADER = (
    "terminals", "block_bytes", "low_water_bytes", "terminal", "mbit_s", "together_mbit_s", "jain", "sent_again",
    "most_window_segments", "most_unsent_bytes", "cpu_s",
)  # fmt: skip


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for terminals in dict.fromkeys(run.task.terminals for run in good):
        those = [run for run in good if run.task.terminals == terminals]
        for task in dict.fromkeys(run.task for run in those):
            yield from _of_task(task, [run for run in those if run.task == task])
        yield from _beside_the_paper(terminals, those)


def _of_task(task: Task, runs: Sequence[Run]) -> Iterator[Figure]:
    yield middle(f"{task}: together", [run.bps / 1e6 for run in runs], "Mbit/s")
    if task.terminals > 1:
        yield middle("  Jain's index", [run.jain for run in runs], "")
        yield middle("  the terminals apart by", [run.spread_bps / 1e6 for run in runs], "Mbit/s")
    if task.block_bytes == MOST_BYTES:
        yield worst("  unsent in a socket", [run.unsent_bytes / 1e3 for run in runs], "kB")
    yield middle("  segments sent again", [float(run.retransmits) for run in runs], "segments")


def _beside_the_paper(terminals: int, runs: Sequence[Run]) -> Iterator[Figure]:
    by_block: dict[int, list[float]] = {}
    for run in runs:
        if not run.task.low_water_bytes:
            by_block.setdefault(run.task.block_bytes, []).append(run.bps)
    best = max((median(each) for each in by_block.values()), default=GOODPUT_BPS)
    for one in paper003.statements():
        if one.terminals != terminals:
            continue
        least, most = format_size(one.least_block_bytes), format_size(one.most_block_bytes)
        blocks = least if least == most else f"{least} to {most}"
        if one.value is not None:
            yield Figure(f"  paper 003, writes of {blocks}: {one.what}", one.value, one.unit, 0, one.value, one.value)
            continue
        inside = [
            bps
            for block, those in by_block.items()
            if one.least_block_bytes <= block <= one.most_block_bytes
            for bps in those
        ]
        if inside:
            shares = [100 * bps / best for bps in inside]
            yield figure(f"  writes of {blocks}, the paper's best: of the best here", median(shares), shares, "%")
    if MOST_BYTES in by_block:
        shares = [100 * bps / best for bps in by_block[MOST_BYTES]]
        yield figure(
            f"  writes of {format_size(MOST_BYTES)}, which fall in the paper: of the best here",
            median(shares),
            shares,
            "%",
        )


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    task = run.task
    for number, one in enumerate(run.uploads, 1):
        most = (round(max(one.window_segments, default=0.0)), round(max(one.unsent_bytes, default=0.0)))
        told = (
            f"{one.bps / 1e6:.3f}",
            f"{run.bps / 1e6:.3f}",
            f"{run.jain:.4f}",
            one.retransmits,
            *most,
            f"{one.cpu_s:.3f}",
        )
        yield task.terminals, task.block_bytes, task.low_water_bytes, number, *told


FIRST_TRACE = 5  # figure number of the paper's first trace
COLOURS = {1: "tab:blue", 2: "tab:orange", 3: "tab:green"}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    drawing = Drawing(figsize=(14, 15), layout="constrained")
    (together, fair, unsent), *traces = drawing.subplots(1 + len(TERMINALS), 3)
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
    return save(drawing, file)


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
    for one in paper003.statements():
        if one.unit == "Mbit/s" and one.value is not None and one.what.startswith("throughput"):
            span = [one.least_block_bytes, one.most_block_bytes]
            label = f"paper 003, {one.terminals}: {one.value:g}"
            panel.plot(span, [one.value] * 2, "--", color=COLOURS[one.terminals], label=label)


def _trace(panel: Axes, number: int, terminals: int, block_bytes: int, runs: Sequence[Run]) -> None:
    those = [run for run in runs if (run.task.terminals, run.task.block_bytes) == (terminals, block_bytes)]
    for run in [run for run in those if not run.task.low_water_bytes][:1]:
        began = min(one.began for one in run.uploads)
        for terminal, one in enumerate(run.uploads, 1):
            since_s = [moment - began for moment in one.moments]
            panel.plot(since_s, one.window_segments, color=COLOURS[terminal], label=f"terminal {terminal}")
        panel.legend(fontsize="small")
    panel.set_title(
        f"figure {number}: {terminals} at the access point, writes of {format_size(block_bytes)}", fontsize="medium"
    )
    panel.set_xlabel("s")
    panel.set_ylabel("congestion window, segments")
