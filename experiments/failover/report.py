# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure as Drawing

from experiments.failover.measure import Run
from experiments.failover.plan import Protection, Task
from lab.results.figures import Figure, at_most, exactly, figure, middle, worst
from lab.results.pictures import save

MEDIAN_MS, WORST_MS = 250, 500
HEADER = (
    "fault", "direction", "way", "run", "longest_pause_ms", "bytes_by_the_other_path", "no_progress_ms", "whole",
)  # fmt: skip

Death = tuple[str, str]  # fault and data's direction


def pauses_ms(runs: Iterable[Run]) -> Mapping[Death, Mapping[Protection, Sequence[float]]]:
    good = sorted((run for run in runs if not run.stalled), key=lambda run: _death(run.task))
    found: dict[Death, dict[Protection, list[float]]] = {}
    for death, those in groupby(good, key=lambda run: _death(run.task)):
        ways = found.setdefault(death, {})
        for run in those:
            ways.setdefault(run.task.way, []).append(run.pause_s * 1000)
    return found


def _death(task: Task) -> Death:
    return task.fault, task.direction


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    if not good:
        return
    broken = [float(not run.streamed.whole) for run in good]
    yield figure("transfers whose bytes differ", sum(broken), broken, "transfers", exactly(0))
    stayed = [float(run.moved_bytes == 0) for run in good]
    yield figure("transfers that stayed on the dead path", sum(stayed), stayed, "transfers", exactly(0))
    for (fault, direction), ways in pauses_ms(good).items():
        for number, (way, values) in enumerate(ways.items()):
            head = f"{fault}, {direction}: longest pause; " if number == 0 else "  "
            yield middle(f"{head}{way.name}, median", values, "ms")
            yield worst(f"  {way.name}, worst", values, "ms")
        ours = {way: values for way, values in ways.items() if not way.is_default and not way.controller_killed}
        if ours:
            best = min(ours, key=lambda way: (median(ours[way]), max(ours[way])))
            yield middle(f"  the best way ({best.name}), median", ours[best], "ms", at_most(MEDIAN_MS))
            yield worst(f"  the best way ({best.name}), worst", ours[best], "ms", at_most(WORST_MS))


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    task = run.task
    place = (task.fault, task.direction, task.way.name, task.number)
    patience = "" if run.no_progress_ms is None else run.no_progress_ms
    whole = "yes" if run.streamed.whole else "no"
    yield (*place, f"{run.pause_s * 1000:.1f}", run.moved_bytes, patience, whole)


def draw(runs: Sequence[Run], file: Path) -> Path:
    deaths = pauses_ms(runs)
    ways = list(dict.fromkeys(way for found in deaths.values() for way in found))
    drawing = Drawing(figsize=(3 + 3 * len(deaths), 1.5 + 0.45 * len(ways)), layout="constrained")
    panels = drawing.subplots(1, len(deaths), sharey=True, sharex=True, squeeze=False)[0]
    for panel, ((fault, direction), found) in zip(panels, deaths.items(), strict=True):
        for place, way in enumerate(ways):
            values = found.get(way, ())
            panel.plot(values, [place] * len(values), ".", color="tab:grey" if way.is_default else "tab:blue")
            if values:
                panel.plot(median(values), place, "|", markersize=16, color="black")
        panel.axvline(MEDIAN_MS, color="grey", linestyle=":")
        panel.axvline(WORST_MS, color="grey", linestyle="--")
        panel.set_title(f"{fault},\n{direction}", fontsize="medium")
        panel.set_xlabel("longest pause, ms")
        panel.set_xlim(left=0)
    panels[0].set_yticks(range(len(ways)), [way.name for way in ways])
    panels[0].invert_yaxis()
    drawing.suptitle(
        f"promised of the best way: median (|) <= {MEDIAN_MS} ms, worst <= {WORST_MS} ms", fontsize="medium"
    )
    return save(drawing, file)
