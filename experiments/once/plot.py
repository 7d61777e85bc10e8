"""The runs as a picture: what was lost beside what chance takes, how long answers took, and what each cut cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.once.flows import Cut, Flowed
from experiments.once.plan import OFF, ONCE, SINGLE
from experiments.once.runs import Run
from experiments.once.streams import LOSSES, Asked, Uploaded

COLOURS = {ONCE: "tab:blue", SINGLE: "tab:orange", OFF: "tab:grey"}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    figure = Figure(figsize=(14, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    lost, took, cuts = figure.subplots(1, 3)
    _losses(lost, [run for run in good if isinstance(run, Flowed)])
    _answers(took, [run for run in good if isinstance(run, Asked)])
    _cuts(cuts, good)
    for panel in (lost, took, cuts):
        if panel.get_legend_handles_labels()[1]:
            panel.legend(fontsize="small")
    figure.savefig(file, dpi=120)
    return file


def _losses(panel: Axes, runs: Sequence[Flowed]) -> None:
    known = set[str]()
    for run in runs:
        for way in run.ways.values():
            label = "" if run.mode in known else run.mode
            known.add(run.mode)
            panel.plot(100 * run.losses.both, 100 * len(way.lost) / way.sent, ".", color=COLOURS[run.mode], label=label)
    top = max((100 * run.losses.both for run in runs), default=1.0)
    panel.plot([0, top], [0, top], ":", color="grey", label="what both paths lose by chance")
    panel.set_xscale("symlog", linthresh=0.01)
    panel.set_yscale("symlog", linthresh=0.01)
    panel.set_xlabel("Wi-Fi's loss x LTE's, %")
    panel.set_ylabel("datagrams lost, %")


def _answers(panel: Axes, runs: Sequence[Asked]) -> None:
    for mode in dict.fromkeys(run.mode for run in runs):
        took_ms = sorted(each * 1000 for run in runs if run.mode == mode for each in run.took_s)
        slower = [1 - number / len(took_ms) for number in range(len(took_ms))]
        panel.plot(took_ms, slower, drawstyle="steps-post", color=COLOURS[mode], label=mode)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel(f"1 kB asked and answered by TCP, ms\n{LOSSES}")
    panel.set_ylabel("share of answers that took as long")


def _cuts(panel: Axes, runs: Sequence[Run]) -> None:
    for run in runs:
        if isinstance(run, Cut):
            lost = [sum(each) for each in zip(*(run.lost(way) for way in run.ways), strict=True)]
            panel.plot(range(1, len(lost) + 1), lost, "o", color=COLOURS[run.mode], label=f"{run.mode}: datagrams lost")
        elif isinstance(run, Uploaded):
            pauses_ms = [each * 1000 for each in run.pauses_s]
            label = f"{run.mode}: an upload's pause, ms"
            panel.plot(range(1, len(pauses_ms) + 1), pauses_ms, "x", color=COLOURS[run.mode], label=label)
    panel.set_yscale("symlog", linthresh=1)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("cut of Wi-Fi")
