"""What the runs come to: of each phase what came, what it cost on LTE, and how soon and how often it was decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from experiments.adaptive.plan import ADAPTIVE, ALWAYS, MODES, NEVER, SCRIPT
from experiments.adaptive.runs import Run
from experiments.adaptive.seen import Budgeted, Part, Scripted
from lab.results.figures import Figure, Promise, at_least, at_most, exactly, figure, middle, worst

OF_ALWAYS, OF_BAD, DECIDED_S, CHANGES = 0.97, 1.3, 1.0, 1
HEADER = (
    "what", "mode", "run", "phase", "seconds", "mbit_s", "longest_pause_ms", "lte_bytes", "copies_before", "changes",
    "decided_after_s", "because",
)  # fmt: skip
NAMES = {ADAPTIVE: "adaptive", ALWAYS: "always", NEVER: "never"}


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    scripted = [run for run in good if isinstance(run, Scripted)]
    if scripted:
        yield from _of_script(scripted)
    for run in good:
        if isinstance(run, Budgeted):
            yield from _of_budget(run)


def _of_script(runs: Sequence[Scripted]) -> Iterator[Figure]:
    broken = [float(not run.streamed.whole) for run in runs]
    yield figure("streams whose bytes differ", sum(broken), broken, "streams", exactly(0))
    by_mode = {mode: {run.task.number: run for run in runs if run.task.mode == mode} for mode in MODES}
    for number in range(len(SCRIPT)):
        yield from _of_phase(number, by_mode)
    yield from _of_lte(by_mode)
    ours = list(by_mode[ADAPTIVE].values())
    if ours:
        yield from _of_decisions(ours)


def _of_phase(number: int, by_mode: Mapping[str, Mapping[int, Scripted]]) -> Iterator[Figure]:
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
    number: int, by_mode: Mapping[str, Mapping[int, Scripted]]
) -> Iterator[tuple[Scripted, Scripted, Part, Part]]:
    """Of one round."""
    for each, ours in by_mode[ADAPTIVE].items():
        theirs = by_mode[ALWAYS].get(each)
        if theirs is not None:
            yield ours, theirs, ours.parts[number], theirs.parts[number]


def _of_lte(by_mode: Mapping[str, Mapping[int, Scripted]]) -> Iterator[Figure]:
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


def _of_decisions(runs: Sequence[Scripted]) -> Iterator[Figure]:
    parts = [(run, part) for run in runs for part in run.parts]
    bad, clean = ([(run, part) for run, part in parts if part.phase.bad is each] for each in (True, False))
    missed = [float(run.decided_s(part) is None) for run, part in bad if run.is_to_decide(part)]
    if missed:
        yield figure("bad phases that had no copies to their end", sum(missed), missed, "phases", exactly(0))
    yield from _decided("  copies begin, from a bad phase's beginning on", bad, at_most(DECIDED_S))
    yield from _decided("  copies end, from a clean phase's beginning on", clean, None)
    changes = [float(len(run.changes_in(part))) for run, part in parts]
    yield worst("  changes in a phase", changes, "changes", at_most(CHANGES))


def _decided(what: str, parts: Iterable[tuple[Scripted, Part]], promise: Promise | None) -> Iterator[Figure]:
    found = (run.decided_s(part) for run, part in parts)
    after_s = [each for each in found if each is not None]
    if after_s:
        yield worst(what, after_s, "s", promise)


def _of_budget(run: Budgeted) -> Iterator[Figure]:
    spent, budget = run.copied_bytes / 1000, run.budget_bytes / 1000
    yield figure("a download under a budget: copies, as LTE's far end counts", spent, [spent], "kB", at_most(budget))
    yield middle("  of the budget", [100 * spent / budget], "%")
    yield middle("  its goodput", [run.bps / 1e6], "Mbit/s")


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    match run:
        case Scripted():
            for part in run.parts:
                changes = run.changes_in(part)
                decided_s = run.decided_s(part) if run.task.mode == ADAPTIVE else None
                yield (
                    "script", run.task.mode, run.task.number, part.phase.name, f"{part.until - part.since:.1f}",
                    f"{run.bps(part) / 1e6:.3f}", f"{run.pause_s(part) * 1000:.0f}",
                    round(run.carried.between(part.since, part.until)), run.has_copies(part), len(changes),
                    "" if decided_s is None else f"{decided_s:.2f}", " | ".join(each.because for each in changes),
                )  # fmt: skip
        case Budgeted():
            seconds = f"{run.ended - run.began:.1f}"
            goodput = f"{run.bps / 1e6:.3f}"
            told = f"budget {run.budget_bytes}: {run.told}"
            yield "budget", ALWAYS, 1, "clean", seconds, goodput, "", run.copied_bytes, True, "", "", told
