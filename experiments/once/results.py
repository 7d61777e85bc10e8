"""What the runs come to: figures with what was promised of them, and a line a run and direction."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.figures import Figure, Promise, at_most, exactly, figure, middle, percentile, worst
from experiments.once.chance import interval
from experiments.once.flows import EVERY_S, THIN_PPS, Cut, Flowed
from experiments.once.pinging import Pinged
from experiments.once.plan import ONCE, Losses
from experiments.once.runs import Run
from experiments.once.streams import LOSSES, RATE_PER_S, Asked, Uploaded

LOST_PER_CUT, PAUSE_MS = 2, 100
HEADER = ("what", "how", "mode", "way", "sent", "lost", "duplicated", "p50_ms", "p99_ms", "longest_ms")


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    yield from _of_pings([run for run in good if isinstance(run, Pinged)])
    yield from _of_flows([run for run in good if isinstance(run, Flowed)])
    yield from _of_questions([run for run in good if isinstance(run, Asked)])
    yield from _of_cuts([run for run in good if isinstance(run, Cut)])
    yield from _of_uploads([run for run in good if isinstance(run, Uploaded)])


def _of_pings(runs: Sequence[Pinged]) -> Iterator[Figure]:
    for scenario in dict.fromkeys(run.scenario for run in runs):
        those = [run for run in runs if run.scenario == scenario]
        head = f"{those[0].sent} pings at 10 ms, {scenario.name}"
        yield worst(f"{head}: lost", [float(run.lost) for run in those], "pings", exactly(0))
        most = at_most(scenario.most_doubled) if scenario.most_doubled else exactly(0)
        yield worst("  duplicated", [float(run.doubled) for run in those], "pings", most)


def _of_flows(runs: Sequence[Flowed]) -> Iterator[Figure]:
    for mode, losses in dict.fromkeys((run.mode, run.losses) for run in runs):
        ways = [way for run in runs if (run.mode, run.losses) == (mode, losses) for way in run.ways.values()]
        sent, lost = sum(way.sent for way in ways), sum(len(way.lost) for way in ways)
        shares = [100 * len(way.lost) / way.sent for way in ways]
        promise = _by_chance(losses, sent) if mode == ONCE else None
        told = f"{sent} datagrams, both ways, {losses}, {mode}: lost"
        yield figure(told, 100 * lost / sent, shares, "%", promise)
    ours = [float(way.doubled) for run in runs if run.mode == ONCE for way in run.ways.values()]
    if ours:
        yield figure(f"  duplicated in all of these in {ONCE}", sum(ours), ours, "datagrams", exactly(0))
        yield _lateness(runs)


def _by_chance(losses: Losses, sent: int) -> Promise:
    """What both lose, in percent of what was sent."""
    least, most = interval(sent, losses.both)

    def kept(percent: float) -> bool:
        return least <= round(percent * sent / 100) <= most

    return Promise(f"{100 * least / sent:.2g} to {100 * most / sent:.2g}", kept)


def _of_questions(runs: Sequence[Asked]) -> Iterator[Figure]:
    for number, mode in enumerate(dict.fromkeys(run.mode for run in runs)):
        took_ms = [each * 1000 for run in runs if run.mode == mode for each in run.took_s]
        head = f"1 kB asked and answered by TCP, {RATE_PER_S}/s, {LOSSES}; " if number == 0 else "  "
        yield middle(f"{head}{mode}, median", took_ms, "ms")
        yield figure(f"  {mode}, p99", percentile(took_ms, 99), took_ms, "ms")
        yield worst(f"  {mode}, longest", took_ms, "ms")


def _of_cuts(runs: Sequence[Cut]) -> Iterator[Figure]:
    for number, mode in enumerate(dict.fromkeys(run.mode for run in runs)):
        those = [run for run in runs if run.mode == mode]
        lost = [float(each) for run in those for way in run.ways for each in run.lost(way)]
        head = f"Wi-Fi cut and healed every {EVERY_S:g} s, {THIN_PPS} datagrams/s each way; " if number == 0 else "  "
        ours = mode == ONCE
        yield worst(f"{head}{mode}, lost at a cut", lost, "datagrams", at_most(LOST_PER_CUT) if ours else None)
        doubled = [float(way.doubled) for run in those for way in run.ways.values()]
        yield figure(f"  {mode}, duplicated", sum(doubled), doubled, "datagrams", exactly(0) if ours else None)
    if runs:
        yield _lateness(runs)


def _lateness(runs: Sequence[Flowed] | Sequence[Cut]) -> Figure:
    """By it one sees whether the machine had time: a copy that it holds up for longer than the window passes."""
    late_ms = [way.lateness_s * 1000 for run in runs for way in run.ways.values()]
    return worst("  the senders' own lateness", late_ms, "ms")


def _of_uploads(runs: Sequence[Uploaded]) -> Iterator[Figure]:
    if runs:
        broken = [float(not run.streamed.whole) for run in runs]
        yield figure(
            "an upload under such cuts: uploads whose bytes differ", sum(broken), broken, "uploads", exactly(0)
        )
    for run in runs:
        pauses_ms = [each * 1000 for each in run.pauses_s]
        promise = at_most(PAUSE_MS) if run.mode == ONCE else None
        yield worst(f"  {run.mode}, longest pause at a cut", pauses_ms, "ms", promise)
        yield middle(f"  {run.mode}, the same, median of the cuts", pauses_ms, "ms")
        yield middle(f"  {run.mode}, goodput before the first cut", [run.bps / 1e6], "Mbit/s")


def keep_runs(runs: Iterable[Run], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as kept:
        writer = csv.writer(kept, lineterminator="\n")
        writer.writerow(HEADER)
        for run in runs:
            if not run.stalled:
                writer.writerows(_rows(run))


def _rows(run: Run) -> Iterator[tuple[object, ...]]:
    match run:
        case Pinged():
            yield "pings", run.scenario.name, ONCE, "there and back", run.sent, run.lost, run.doubled, "", "", ""
        case Flowed() | Cut():
            told = str(run.losses) if isinstance(run, Flowed) else f"{len(run.moments)} cuts"
            for way, each in run.ways.items():
                yield "datagrams", told, run.mode, way, each.sent, len(each.lost), each.doubled, "", "", ""
        case Asked():
            spans = (f"{percentile(run.took_s, percent) * 1000:.2f}" for percent in (50, 99, 100))
            yield "questions", str(LOSSES), run.mode, "there and back", len(run.took_s), "", "", *spans
        case Uploaded():
            for number, pause_s in enumerate(run.pauses_s, 1):
                yield "upload", f"cut {number}", run.mode, "up", "", "", "", "", "", f"{pause_s * 1000:.1f}"
