# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot of the downloads, compared with those that stay on Wi-Fi."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from experiments.relay.moves.measure import Run
from experiments.relay.moves.plan import SENDERS
from lab.results.figures import Figure, at_least, middle

WORTH = 0.8  # of staying: where LTE is slower, trying it takes some of the time
HEADER = ("sender", "loss_percent", "lte_mbit_s", "staying_mbit_s", "left_to_policies_mbit_s", "ended_on", "moves")


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for sender, loss, lte_bps in sorted({(run.sender, run.loss_percent, run.lte_bps) for run in good}):
        those = [run for run in good if (run.sender, run.loss_percent, run.lte_bps) == (sender, loss, lte_bps)]
        told = f"{sender}, Wi-Fi losing {loss} %, LTE of {lte_bps / 1e6:.0f} Mbit/s"
        yield middle(f"{told}: staying", [run.staying_bps / 1e6 for run in those], "Mbit/s")
        ratios = [run.moved_bps / run.staying_bps for run in those]
        yield middle("  left to policies, of staying", ratios, "", at_least(WORTH))


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    rates = (f"{run.staying_bps / 1e6:.2f}", f"{run.moved_bps / 1e6:.2f}")
    yield run.sender, run.loss_percent, f"{run.lte_bps / 1e6:g}", *rates, run.ended_on, run.moves


def draw(runs: Sequence[Run], file: Path) -> Path:
    figure = Drawing(figsize=(5, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    good = [run for run in runs if not run.stalled]
    for sender, mark in zip(SENDERS, ("o", "x"), strict=True):
        those = [run for run in good if run.sender == sender]
        axes.plot([run.staying_bps / 1e6 for run in those], [run.moved_bps / 1e6 for run in those], mark, label=sender)
    axes.axline((0, 0), slope=1, linewidth=0.5)
    axes.set_xlabel("staying on Wi-Fi, Mbit/s")
    axes.set_ylabel("left to policies, Mbit/s")
    axes.legend()
    figure.savefig(file, dpi=120)
    return file
