"""The script as a picture over time: what came, what LTE carried, and where it was decided; beside it the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.adaptive.plan import ADAPTIVE, ALWAYS, NEVER
from experiments.adaptive.results import NAMES
from experiments.adaptive.runs import Run
from experiments.adaptive.seen import Budgeted, Scripted

COLOURS = {ADAPTIVE: "tab:blue", ALWAYS: "tab:green", NEVER: "tab:orange"}
STEP_S = 0.5
MOST_MBPS = 10  # what is caught up at the end of a dead phase would dwarf the rest


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    figure = Figure(figsize=(14, 7), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplot_mosaic("aac;bbc", sharex=False)
    came, lte, budget = (panels[each] for each in "abc")
    scripted = [run for run in good if isinstance(run, Scripted)]
    _over_time(came, scripted, lambda run, since, until: run.streamed.bps(since, until))
    _over_time(lte, scripted, lambda run, since, until: run.carried.between(since, until) * 8 / (until - since))
    came.set_ylabel("came at the server, Mbit/s")
    lte.set_ylabel("carried by LTE, Mbit/s")
    lte.set_xlabel("s since the script began; marks: copies begin (up) and end (down)")
    for run in scripted:
        _decisions(lte, run)
    _budgets(budget, [run for run in good if isinstance(run, Budgeted)])
    for panel in (came, lte, budget):
        panel.set_ylim(bottom=0)
    came.set_ylim(top=MOST_MBPS)
    for panel in (came, budget):
        if panel.get_legend_handles_labels()[1]:
            panel.legend(fontsize="small")
    figure.savefig(file, dpi=120)
    return file


def _over_time(panel: Axes, runs: Sequence[Scripted], bps: Callable[[Scripted, float, float], float]) -> None:
    known = set[str]()
    for run in runs:
        mode, began, ended = run.task.mode, run.moments[0], run.moments[-1]
        steps = [began + STEP_S * number for number in range(int((ended - began) / STEP_S))]
        mbps = [bps(run, step, step + STEP_S) / 1e6 for step in steps]
        label = "" if mode in known else NAMES[mode]
        known.add(mode)
        since_s = [step - began for step in steps]
        panel.plot(since_s, mbps, color=COLOURS[mode], label=label, drawstyle="steps-post", linewidth=0.9, alpha=0.7)
    for part in runs[0].parts if runs else ():
        since, until = (moment - runs[0].moments[0] for moment in (part.since, part.until))
        if part.phase.bad:
            panel.axvspan(since, until, color="0.93")
        panel.text((since + until) / 2, 0.02, part.phase.name, transform=panel.get_xaxis_transform(), ha="center")


def _decisions(panel: Axes, run: Scripted) -> None:
    for change in run.counted:
        moment = change.at - run.moments[0]
        panel.axvline(moment, color=COLOURS[run.task.mode], linestyle=":", linewidth=0.8)
        panel.plot(moment, 0.2, "^" if change.copies else "v", color=COLOURS[run.task.mode], clip_on=False)


def _budgets(panel: Axes, runs: Sequence[Budgeted]) -> None:
    for run in runs:
        since_s = [moment - run.began for moment in run.carried.moments]
        panel.plot(since_s, [size / 1000 for size in run.carried.sizes], color=COLOURS[ALWAYS], label="came by LTE")
        panel.axhline(run.budget_bytes / 1000, color="tab:red", linestyle="--", label="budget of the day")
    panel.set_xlabel("s of a download in mode bicast")
    panel.set_ylabel("copies of acknowledgements, kB")
