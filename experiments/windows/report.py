# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Drawing

from experiments.transfer.plan import MODES
from experiments.transfer.report import STYLES
from experiments.windows.measure import Run
from lab.results.figures import Figure, middle
from lab.results.pictures import save
from lab.results.significance import permutation_test, sign_test

HEADER = ("wifi_down_loss_percent", "mode", "run", "download_s", "second", "window_segments")
COLUMNS = 3  # of the plot


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    for down in dict.fromkeys(run.down_percent for run in runs):
        found = {how: [run for run in runs if (run.down_percent, run.how) == (down, how)] for how in MODES}
        for how, those in found.items():
            yield middle(f"{down} % lost down, {how}: window", [run.window_segments for run in those], "segments")
            yield middle("  download", [run.seconds for run in those], "s")
        plain, bicast = ([run.window_segments for run in found[how]] for how in ("plain", "bicast"))
        if plain and bicast:
            chance = permutation_test(plain, bicast)
            yield Figure(
                "  chance of so much wider a window without an effect", chance, "", len(bicast), chance, chance
            )


def wider(runs: Sequence[Run]) -> tuple[int, int, float]:
    """Return in how many pairs of runs copies have the wider window, the pairs, and the chance of it."""
    plain = {(run.down_percent, run.number): run.window_segments for run in runs if run.how == "plain"}
    bicast = {(run.down_percent, run.number): run.window_segments for run in runs if run.how == "bicast"}
    pairs = plain.keys() & bicast.keys()
    count = sum(bicast[each] > plain[each] for each in pairs)
    return count, len(pairs), sign_test(count, len(pairs))


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    for second, segments in run.samples:
        yield run.down_percent, run.how, run.number, f"{run.seconds:.3f}", f"{second:.2f}", segments


def read(file: Path) -> list[Run]:
    """Return the runs of a file of rows."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as kept:
        lines = list(csv.DictReader(kept))
    runs = []
    for key, those in groupby(lines, lambda line: tuple(line[name] for name in HEADER[:4])):
        samples = tuple((float(line["second"]), int(line["window_segments"])) for line in those)
        runs.append(Run(int(key[0]), key[1], int(key[2]), float(key[3]), samples))
    return runs


def draw(runs: Sequence[Run], file: Path) -> Path:
    downs = sorted({run.down_percent for run in runs})
    lines = -(-len(downs) // COLUMNS)
    drawing = Drawing(figsize=(11, 3.2 * lines), layout="constrained")
    panels: Any = drawing.subplots(lines, COLUMNS, squeeze=False)
    for panel in panels.flat[len(downs) :]:
        panel.set_axis_off()
    for panel, down in zip(panels.flat, downs, strict=False):
        for how, style in STYLES.items():
            for run in runs:
                if (run.down_percent, run.how) == (down, how):
                    label = style["label"] if run.number == 1 else None
                    panel.plot(*zip(*run.samples, strict=True), color=style["color"], linewidth=0.8, label=label)
        panel.set_title(f"Wi-Fi loses {down} % down", fontsize="medium")
        panel.set_xlabel("seconds")
        panel.set_ylabel("server's window, segments")
        panel.set_ylim(bottom=0)
        panel.legend(fontsize="small")
    return save(drawing, file)
