# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from controller.policy.paths.uplink_choice import WORTH
from experiments.relay.moves.measure import ROUTES, Run
from experiments.relay.moves.plan import SENDERS
from lab.results.figures import Figure, at_least, figure, middle
from lab.results.pictures import save

TRIAL_S = 4.0  # on an uplink of unknown capacity that turns out slower (docs/explanation/steering.md)
HEADER = (
    "route", "sender", "loss_percent", "lte_mbit_s", "staying_mbit_s", "left_to_policies_mbit_s", "ended_on", "moves",
)  # fmt: skip


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for cell in dict.fromkeys(run.cell for run in good):
        those = [run for run in good if run.cell == cell]
        yield middle(f"{cell}: staying", [run.staying_bps / 1e6 for run in those], "Mbit/s")
        ratios = [run.ratio for run in those]
        if any(run.moves for run in those):
            yield middle("  left to policies, of staying", ratios, "", at_least(_worth(those[0].seconds)))
        else:  # both stayed: the ratio is the sender's spread
            yield middle("  left to policies, which did not move it, of staying", ratios, "")
    for route in ROUTES:
        moved = [run.ratio for run in good if run.route == route and run.moves]
        if moved:
            yield figure(f"{route}, moved: of staying, least of all", min(moved), moved, "")


def _worth(seconds: int) -> float:
    """Return the promised share of staying, for a download that begins with a trial."""
    return min(WORTH, 1 - TRIAL_S / seconds)


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    rates = (f"{run.staying_bps / 1e6:.2f}", f"{run.moved_bps / 1e6:.2f}")
    yield run.route, run.sender, run.loss_percent, f"{run.lte_bps / 1e6:g}", *rates, run.ended_on, run.moves


def draw(runs: Sequence[Run], file: Path) -> Path:
    drawing = Drawing(figsize=(10, 5), layout="constrained")
    good = [run for run in runs if not run.stalled]
    for route, axes in zip(ROUTES, drawing.subplots(1, len(ROUTES)), strict=True):
        for sender, mark in zip(SENDERS, ("o", "x"), strict=True):
            those = [run for run in good if (run.route, run.sender) == (route, sender)]
            staying, moved = [run.staying_bps / 1e6 for run in those], [run.moved_bps / 1e6 for run in those]
            axes.plot(staying, moved, mark, label=sender)
        axes.axline((0, 0), slope=1, linewidth=0.5)
        axes.set_title(route)
        axes.set_xlabel("staying on Wi-Fi, Mbit/s")
        axes.set_ylabel("left to policies, Mbit/s")
        axes.legend()
    return save(drawing, file)
