"""The runs as a picture: what was lost beside what chance takes, how long answers took, what cuts and deaths cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import FillStyleType

from experiments.once.black import BLACK_S, Blackened
from experiments.once.bulk import Carried
from experiments.once.dying import Died
from experiments.once.flows import DOWN, UP, Cut, Flowed
from experiments.once.plan import OFF, ONCE, SINGLE, TWICE, UPLOADS
from experiments.once.runs import Run
from experiments.once.streams import LOSSES, Asked, Uploaded
from experiments.once.tunnelled import Followed, Tunnelled

COLOURS = {ONCE: "tab:blue", SINGLE: "tab:orange", OFF: "tab:grey", TWICE: "tab:green"}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    figure = Figure(figsize=(14, 9), layout="constrained")
    FigureCanvasAgg(figure)
    (lost, took, cuts), (bulk, black, deaths) = figure.subplots(2, 3)
    _losses(lost, [run for run in good if isinstance(run, Flowed)])
    _answers(took, [run for run in good if isinstance(run, Asked)])
    _cuts(cuts, good)
    _bulk(bulk, [run for run in good if isinstance(run, Carried)])
    inside = [run.run for run in good if isinstance(run, Tunnelled)]
    _bulk(bulk, [run for run in inside if isinstance(run, Carried)], " through tunnels", fillstyle="none")
    _blacks(black, [run for run in good if isinstance(run, Blackened)])
    _deaths(deaths, [run for run in good if isinstance(run, Died)])
    _followed(deaths, [run for run in good if isinstance(run, Followed)])
    for panel in (bulk, deaths):
        panel.set_ylim(bottom=0)
    for panel in (lost, took, cuts, bulk, black, deaths):
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
            label = f"{run.mode}: an upload's pause, ms ({run.queue_ms:g} waiting on LTE)"
            mark = "x" if run.queue_ms == UPLOADS[run.mode][0] else "+"
            panel.plot(range(1, len(pauses_ms) + 1), pauses_ms, mark, color=COLOURS[run.mode], label=label)
    panel.set_yscale("symlog", linthresh=1)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("cut of Wi-Fi")


def _bulk(panel: Axes, runs: Sequence[Carried], through: str = "", fillstyle: FillStyleType = "full") -> None:
    known = set[str]()
    for run in runs:
        label = "" if run.how in known else run.how + through
        known.add(run.how)
        mark = {UP: "^", DOWN: "v"}[run.way]
        panel.plot(
            run.of_thousand(run.dsacks), run.bps / 1e6, mark, color=COLOURS[run.how], label=label, fillstyle=fillstyle
        )
    panel.set_xscale("symlog", linthresh=1)
    panel.set_xlabel("DSACKs of 1000 segments")
    panel.set_ylabel("bulk up and down (the way of the triangle), Mbit/s")


def _blacks(panel: Axes, runs: Sequence[Blackened]) -> None:
    for run in runs:
        since_s = [moment - run.moment for moment in run.streamed.moments]
        come_mb = [size / 1e6 for size in run.streamed.sizes]
        label = f"{run.mode}: {run.wire_percent:.0f} % on the wires"
        panel.plot(since_s, come_mb, drawstyle="steps-post", color=COLOURS[run.mode], label=label)
    panel.axvspan(0, BLACK_S, color="0.9")
    panel.set_xlabel("s since Wi-Fi is black, for as long as is grey")
    panel.set_ylabel("MB downloaded")


def _deaths(panel: Axes, runs: Sequence[Died]) -> None:
    for number, run in enumerate(runs, 1):
        label = "" if number > 1 else "told"
        panel.plot(number, run.told_s, "o", color="tab:red", label=label)
        for (site, left_s), mark in zip(run.left_s.items(), "<>", strict=True):
            label = "" if number > 1 else f"out of the groups at {site}"
            panel.plot(number, run.told_s + left_s, mark, color="tab:purple", label=label)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("silent death of Wi-Fi, or change of its NAT's outer address")
    panel.set_ylabel("s after it")


def _followed(panel: Axes, runs: Sequence[Followed]) -> None:
    for mode in dict.fromkeys(run.mode for run in runs):
        took_s = [run.took_s for run in runs if run.mode == mode]
        panel.plot(range(1, len(took_s) + 1), took_s, "x", color=COLOURS[mode], label=f"{mode}: address followed")
