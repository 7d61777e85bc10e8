# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot, beside the capacity of Wi-Fi's line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure as Drawing

from experiments.relay.home.measure import LINE_BPS, Run
from experiments.relay.home.plan import ALONE, DOWN, DOWN_LOSS_PERCENT, MODES, UP, UP_LOSS_PERCENT
from lab.results.figures import Figure, at_most, exactly, figure, middle
from lab.results.pictures import save

OF_LIMIT = 1.25
PROMISED = ("bicast", DOWN)
HEADER = ("how", "direction", "bytes", "seconds", "mbit_s", "of_line_limit", "whole")


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    if not good:
        return
    limit = LINE_BPS / 1e6
    yield Figure("the line's limit: TCP's payload on Wi-Fi of 100 Mbit/s", limit, "Mbit/s", 0, limit, limit)
    broken = [float(not run.whole) for run in good]
    yield figure("transfers in which what came is not what was sent", sum(broken), broken, "transfers", exactly(0))
    for direction in (DOWN, UP):
        those = [run for run in good if run.task.direction == direction]
        alone = [run.bps for run in those if run.task.how == ALONE]
        for how in (ALONE, *MODES):
            yield from _of([run for run in those if run.task.how == how], median(alone) if alone else None)


def _of(runs: Sequence[Run], alone_bps: float | None) -> Iterator[Figure]:
    if not runs:
        return
    task = runs[0].task
    promise = at_most(OF_LIMIT) if (task.how, task.direction) == PROMISED else None
    told = f"{task}, Wi-Fi losing {UP_LOSS_PERCENT} % up and {DOWN_LOSS_PERCENT} % down"
    yield middle(told, [run.bps / 1e6 for run in runs], "Mbit/s")
    yield middle("  its time, of the line's limit", [run.of_limit for run in runs], "", promise)
    if alone_bps is not None and task.how != ALONE:
        yield middle(f"  its rate, of one's who is {ALONE}", [run.bps / alone_bps for run in runs], "")


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    task = run.task
    measured = (f"{run.seconds:.3f}", f"{run.bps / 1e6:.3f}", f"{run.of_limit:.3f}", "yes" if run.whole else "no")
    yield task.how, task.direction, task.size_bytes, *measured


def draw(runs: Sequence[Run], file: Path) -> Path:
    hows = (ALONE, *MODES)
    drawing = Drawing(figsize=(9, 4.5), layout="constrained")
    for panel, direction in zip(drawing.subplots(1, 2, sharey=True), (DOWN, UP), strict=True):
        for run in runs:
            if not run.stalled and run.task.direction == direction:
                panel.plot(hows.index(run.task.how), run.bps / 1e6, "o", color="tab:blue")
        panel.axhline(LINE_BPS / 1e6, color="grey", linestyle=":", label="the line's limit")
        panel.set_xticks(range(len(hows)), hows)
        panel.set_yscale("log")
        panel.set_title(direction)
        panel.set_ylabel("Mbit/s")
        panel.legend(fontsize="small")
    return save(drawing, file)
