# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from experiments.adaptive.measure import Run
from experiments.adaptive.observations import BudgetRun, Part, ScriptRun
from experiments.adaptive.plan import ADAPTIVE, ALWAYS, MODES, NEVER, SCRIPT
from lab.results.figures import Figure, Promise, at_least, at_most, exactly, figure, middle, worst
from lab.results.pictures import save

OF_ALWAYS, OF_BAD, DECIDED_S, CHANGES = 0.97, 1.3, 1.0, 1
HEADER = (
    "what", "mode", "run", "phase", "seconds", "mbit_s", "longest_pause_ms", "lte_bytes", "copies_before", "changes",
    "decided_after_s", "reason",
)  # fmt: skip
NAMES = {ADAPTIVE: "adaptive", ALWAYS: "always", NEVER: "never"}


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    scripts = [run for run in good if isinstance(run, ScriptRun)]
    if scripts:
        yield from _of_script(scripts)
    for run in good:
        if isinstance(run, BudgetRun):
            yield from _of_budget(run)


def _of_script(runs: Sequence[ScriptRun]) -> Iterator[Figure]:
    broken = [float(not run.streamed.whole) for run in runs]
    yield figure("streams whose bytes differ", sum(broken), broken, "streams", exactly(0))
    by_mode = {mode: {run.task.number: run for run in runs if run.task.mode == mode} for mode in MODES}
    for number in range(len(SCRIPT)):
        yield from _of_phase(number, by_mode)
    yield from _of_lte(by_mode)
    ours = list(by_mode[ADAPTIVE].values())
    if ours:
        yield from _of_decisions(ours)


def _of_phase(number: int, by_mode: Mapping[str, Mapping[int, ScriptRun]]) -> Iterator[Figure]:
    head = f"{SCRIPT[number].name}, goodput; "
    for mode, runs in by_mode.items():
        parts = [(run, run.parts[number]) for run in runs.values()]
        if parts:
            yield middle(f"{head}{NAMES[mode]}", [run.bps(part) / 1e6 for run, part in parts], "Mbit/s")
            yield worst("    longest pause", [run.pause_s(part) * 1000 for run, part in parts], "ms")
            head = "  "
    ratios = [ours.bps(a) / theirs.bps(b) for ours, theirs, a, b in _pairs(number, by_mode) if theirs.bps(b)]
    if ratios:
        yield figure("  adaptive, of always; the least", min(ratios), ratios, "", at_least(OF_ALWAYS))


def _pairs(
    number: int, by_mode: Mapping[str, Mapping[int, ScriptRun]]
) -> Iterator[tuple[ScriptRun, ScriptRun, Part, Part]]:
    for each, ours in by_mode[ADAPTIVE].items():
        theirs = by_mode[ALWAYS].get(each)
        if theirs is not None:
            yield ours, theirs, ours.parts[number], theirs.parts[number]


def _of_lte(by_mode: Mapping[str, Mapping[int, ScriptRun]]) -> Iterator[Figure]:
    head = "carried by LTE in the whole script; "
    for mode, runs in by_mode.items():
        if runs:
            yield middle(f"{head}{NAMES[mode]}", [run.lte_bytes / 1e6 for run in runs.values()], "MB")
            head = "  "
    always = by_mode[ALWAYS]
    if always:
        yield middle("  always, in the bad phases alone", [run.bad_lte_bytes / 1e6 for run in always.values()], "MB")
    both = [(ours, always[each]) for each, ours in by_mode[ADAPTIVE].items() if each in always]
    if both:
        ratios = [ours.lte_bytes / theirs.bad_lte_bytes for ours, theirs in both]
        yield worst("  adaptive, of what always copies in the bad phases", ratios, "", at_most(OF_BAD))
        saved = [100 * (1 - ours.lte_bytes / theirs.lte_bytes) for ours, theirs in both]
        yield middle("  adaptive saves, of what always copies", saved, "%")


def _of_decisions(runs: Sequence[ScriptRun]) -> Iterator[Figure]:
    parts = [(run, part) for run in runs for part in run.parts]
    bad, clean = ([(run, part) for run, part in parts if part.phase.bad is each] for each in (True, False))
    missed = [float(run.decided_s(part) is None) for run, part in bad if run.is_to_decide(part)]
    if missed:
        yield figure("bad phases that had no copies to their end", sum(missed), missed, "phases", exactly(0))
    yield from _decided("  copies begin, from a bad phase's beginning on", bad, at_most(DECIDED_S))
    yield from _decided("  copies end, from a clean phase's beginning on", clean, None)
    changes = [float(len(run.changes_in(part))) for run, part in parts]
    yield worst("  changes in a phase", changes, "changes", at_most(CHANGES))


def _decided(what: str, parts: Iterable[tuple[ScriptRun, Part]], promise: Promise | None) -> Iterator[Figure]:
    found = (run.decided_s(part) for run, part in parts)
    after_s = [each for each in found if each is not None]
    if after_s:
        yield worst(what, after_s, "s", promise)


def _of_budget(run: BudgetRun) -> Iterator[Figure]:
    spent, budget = run.copied_bytes / 1000, run.budget_bytes / 1000
    yield figure("a download under a budget: copies, as LTE's far end counts", spent, [spent], "kB", at_most(budget))
    yield middle("  of the budget", [100 * spent / budget], "%")
    yield middle("  its goodput", [run.bps / 1e6], "Mbit/s")


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    match run:
        case ScriptRun():
            for part in run.parts:
                changes = run.changes_in(part)
                decided_s = run.decided_s(part) if run.task.mode == ADAPTIVE else None
                yield (
                    "script", run.task.mode, run.task.number, part.phase.name, f"{part.until - part.since:.1f}",
                    f"{run.bps(part) / 1e6:.3f}", f"{run.pause_s(part) * 1000:.0f}",
                    round(run.carried.between(part.since, part.until)), run.has_copies(part), len(changes),
                    "" if decided_s is None else f"{decided_s:.2f}", " | ".join(each.reason for each in changes),
                )  # fmt: skip
        case BudgetRun():
            seconds = f"{run.ended - run.began:.1f}"
            goodput = f"{run.bps / 1e6:.3f}"
            told = f"budget {run.budget_bytes}: {run.reason}"
            yield "budget", ALWAYS, 1, "clean", seconds, goodput, "", run.copied_bytes, True, "", "", told


COLOURS = {ADAPTIVE: "tab:blue", ALWAYS: "tab:green", NEVER: "tab:orange"}
STEP_S = 0.5
MOST_MBPS = 10  # a dead phase's catch-up would dwarf the rest


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    drawing = Drawing(figsize=(14, 7), layout="constrained")
    panels = drawing.subplot_mosaic("aac;bbc", sharex=False)
    came, lte, budget = (panels[each] for each in "abc")
    scripts = [run for run in good if isinstance(run, ScriptRun)]
    _over_time(came, scripts, lambda run, since, until: run.streamed.bps(since, until))
    _over_time(lte, scripts, lambda run, since, until: run.carried.between(since, until) * 8 / (until - since))
    came.set_ylabel("came at the server, Mbit/s")
    lte.set_ylabel("carried by LTE, Mbit/s")
    lte.set_xlabel("s since the script began; marks: copies begin (up) and end (down)")
    for run in scripts:
        _decisions(lte, run)
    _budgets(budget, [run for run in good if isinstance(run, BudgetRun)])
    for panel in (came, lte, budget):
        panel.set_ylim(bottom=0)
    came.set_ylim(top=MOST_MBPS)
    for panel in (came, budget):
        if panel.get_legend_handles_labels()[1]:
            panel.legend(fontsize="small")
    return save(drawing, file)


def _over_time(panel: Axes, runs: Sequence[ScriptRun], bps: Callable[[ScriptRun, float, float], float]) -> None:
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


def _decisions(panel: Axes, run: ScriptRun) -> None:
    for change in run.counted:
        moment = change.at - run.moments[0]
        panel.axvline(moment, color=COLOURS[run.task.mode], linestyle=":", linewidth=0.8)
        panel.plot(moment, 0.2, "^" if change.copies else "v", color=COLOURS[run.task.mode], clip_on=False)


def _budgets(panel: Axes, runs: Sequence[BudgetRun]) -> None:
    for run in runs:
        since_s = [moment - run.began for moment in run.carried.moments]
        panel.plot(since_s, [size / 1000 for size in run.carried.sizes], color=COLOURS[ALWAYS], label="came by LTE")
        panel.axhline(run.budget_bytes / 1000, color="tab:red", linestyle="--", label="budget of the day")
    panel.set_xlabel("s of a download in mode bicast")
    panel.set_ylabel("copies of acknowledgements, kB")
