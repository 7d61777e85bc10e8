# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot, beside the direct route."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from experiments.relay.cost.measure import CrowdRun, FirstByteRun, ProcessUsage, Run, ShortRun, TransferRun
from experiments.relay.cost.plan import DOWN, UP
from experiments.relay.cost.proxies import DIRECT, NAMES, PAIR
from lab.results.figures import Figure, at_least, at_most, exactly, figure, middle, worst
from lab.results.pictures import save

MAX_ADDED_RTTS = -0.4  # of direct's round trip: a relay half way saves one of its own two
GROWN_PERCENT = 10.0
Each = TypeVar("Each", TransferRun, FirstByteRun)
HEADER = ("way", "what", "run", "measured", "unit")


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    transfers = [run for run in good if isinstance(run, TransferRun)]
    for name, those in _by_way(transfers).items():
        broken = [float(not run.whole) for run in those]
        if name == PAIR or any(broken):
            what = f"transfers that broke, or of which bytes are missing: {name}"
            yield figure(what, sum(broken), broken, "transfers", exactly(0) if name == PAIR else None)
    for direction in (DOWN, UP):
        yield from _rates(direction, [run for run in transfers if run.direction == direction and run.whole])
    yield from _first_bytes([run for run in good if isinstance(run, FirstByteRun)])
    yield from _crowds([run for run in good if isinstance(run, CrowdRun)])
    for run in good:
        if isinstance(run, ShortRun):
            yield from _passed(run)
    seen = {run.way for run in runs}
    for name in NAMES:
        if name not in seen:
            yield Figure(f"{name}: not installed", 0, "runs", 0, 0, 0)


def _rates(direction: str, runs: Sequence[TransferRun]) -> Iterator[Figure]:
    found = _by_way(runs)
    rates = {name: [run.gbps for run in those] for name, those in found.items()}
    for number, (name, those) in enumerate(found.items()):
        yield middle(f"{direction}: {name}" if number == 0 else f"  {name}", rates[name], "Gbit/s")
        if name == DIRECT:
            continue
        if DIRECT in rates:
            direct = median(rates[DIRECT])
            yield middle("    of direct's", [rate / direct for rate in rates[name]], "")
        for end, spent in ENDS.items():
            each = [spent(run) / run.gbit for run in those]
            yield figure(f"    processor at the {end}, of all its transfers", for_a_gbit(those, end), each, "s/Gbit")
    others = {name: median(those) for name, those in rates.items() if name not in (DIRECT, PAIR)}
    if PAIR in rates and others:
        best = max(others, key=lambda name: others[name])
        ratios = [rate / others[best] for rate in rates[PAIR]]
        yield middle(f"  {PAIR}, of the fastest other's with mutual TLS ({best})", ratios, "", at_least(1))


ENDS: dict[str, Callable[[TransferRun], float]] = {
    "gateway": lambda run: run.gateway_s,
    "relay": lambda run: run.relay_s,
}


def for_a_gbit(runs: Sequence[TransferRun], end: str) -> float:
    """Return processor seconds per Gbit. Runs are summed, because the kernel counts hundredths of a second."""
    return sum(map(ENDS[end], runs)) / sum(run.gbit for run in runs)


def _first_bytes(runs: Sequence[FirstByteRun]) -> Iterator[Figure]:
    found = _by_way(runs)
    first = {name: [each for run in those for each in run.first_ms] for name, those in found.items()}
    rtts_ms = [each for run in found.get(DIRECT, ()) for each in run.connected_ms]  # a handshake is one round trip
    for number, (name, times) in enumerate(first.items()):
        yield middle(f"first byte, relay half way: {name}" if number == 0 else f"  {name}", times, "ms")
        if name == DIRECT:
            yield middle("    its round trip", rtts_ms, "ms")
        elif rtts_ms:
            added_ms = [each - median(first[DIRECT]) for each in times]
            yield middle("    added", added_ms, "ms")
            added = [each / median(rtts_ms) for each in added_ms]
            yield middle(
                "    added, in direct's round trips", added, "", at_most(MAX_ADDED_RTTS) if name == PAIR else None
            )


def _crowds(runs: Sequence[CrowdRun]) -> Iterator[Figure]:
    for run in runs:
        silent = float(run.requested - run.answered)
        kind = "whose download nobody reads" if run.unread else "open at once"
        what = f"{run.requested} {kind}, {run.way}: unanswered"
        yield figure(what, silent, [silent], "connections", exactly(0) if run.way == PAIR else None)
        for end, more_mb in (("gateway", run.gateway_mb), ("relay", run.relay_mb)):
            yield middle(f"  memory at the {end}, more than before", [more_mb], "MB")
            if not run.unread:
                yield middle(f"  memory at the {end} for 1000 idle", [1000 * more_mb / run.requested], "MB")


def _passed(run: ShortRun) -> Iterator[Figure]:
    silent = float(run.requested - run.answered)
    yield figure(f"{run.requested} short ones, {run.way}: unanswered", silent, [silent], "connections", exactly(0))
    for end, held in (("gateway", run.gateway), ("relay", run.relay)):
        more = [float(each.files - held[0].files) for each in held]
        yield figure(f"  files at the {end}, more than before", more[-1], more, "files", at_most(0))
        sizes = [each.resident_mb for each in held]
        yield figure(f"  memory at the {end}", sizes[-1], sizes, "MB")
        yield worst(
            f"  memory at the {end}, grown in the second half", [_grown_percent(held)], "%", at_most(GROWN_PERCENT)
        )


def _grown_percent(usages: Sequence[ProcessUsage]) -> float:
    """Compare with the first half's maximum: reused memory is no leak."""
    half = len(usages) // 2 + 1
    return 100 * (usages[-1].resident_mb / max(each.resident_mb for each in usages[:half]) - 1)


def _by_way(runs: Sequence[Each]) -> dict[str, list[Each]]:
    return {name: those for name in NAMES if (those := [run for run in runs if run.way == name])}


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    match run:
        case TransferRun(whole=False):
            yield run.way, run.direction, run.number, "", "broken"
        case TransferRun():
            yield run.way, run.direction, run.number, f"{run.gbps:.4f}", "Gbit/s"
            for end, spent in ENDS.items():
                yield run.way, f"{run.direction}, {end}", run.number, f"{spent(run) / run.gbit:.4f}", "s/Gbit"
        case FirstByteRun():
            for connected_ms, first_ms in zip(run.connected_ms, run.first_ms, strict=True):
                yield run.way, "connected", run.number, f"{connected_ms:.3f}", "ms"
                yield run.way, "first byte", run.number, f"{first_ms:.3f}", "ms"
        case CrowdRun():
            kind = "unread" if run.unread else "crowd"
            yield run.way, f"of {run.requested} {kind}", 0, run.answered, "answered"
            yield run.way, f"{kind}, gateway", 0, f"{run.gateway_mb:.1f}", "MB"
            yield run.way, f"{kind}, relay", 0, f"{run.relay_mb:.1f}", "MB"
        case ShortRun():
            yield run.way, f"of {run.requested} short ones", 0, run.answered, "answered"
            for end, held in (("gateway", run.gateway), ("relay", run.relay)):
                for number, each in enumerate(held):
                    yield run.way, f"short, {end}", number, f"{each.resident_mb:.1f}", "MB"
                    yield run.way, f"short, {end}", number, each.files, "files"


BESIDE = {DOWN: -0.15, UP: 0.15}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    transfers = [run for run in good if isinstance(run, TransferRun) and run.whole]
    drawing = Drawing(figsize=(14, 4.5), layout="constrained")
    rates, costs, firsts = drawing.subplots(1, 3)
    _draw_rates(rates, transfers)
    _draw_costs(costs, transfers)
    for run in good:
        if isinstance(run, FirstByteRun):
            place = NAMES.index(run.way)
            firsts.plot([place] * len(run.first_ms), run.first_ms, ".", color="tab:blue")
    firsts.set_ylabel("first byte, relay half way, ms")
    firsts.set_ylim(bottom=0)
    for panel in (rates, costs, firsts):
        panel.set_xticks(range(len(NAMES)), NAMES)
    return save(drawing, file)


def _draw_rates(panel: Axes, runs: Sequence[TransferRun]) -> None:
    for run in runs:
        color = "tab:blue" if run.direction == DOWN else "tab:orange"
        panel.plot(NAMES.index(run.way) + BESIDE[run.direction], run.gbps, ".", color=color)
    panel.set_yscale("log")
    panel.set_ylabel("Gbit/s of each transfer, down (blue) and up")


def _draw_costs(panel: Axes, runs: Sequence[TransferRun]) -> None:
    for (name, direction), found in groupby(sorted(runs, key=_sort_key), key=_sort_key):
        those, foot = list(found), 0.0
        for end, color in zip(ENDS, ("tab:blue", "tab:cyan"), strict=True):
            height = for_a_gbit(those, end)
            panel.bar(NAMES.index(name) + BESIDE[direction], height, 0.25, foot, color=color)
            foot += height
    panel.set_ylabel("s of a processor a Gbit, down and up:\ngateway (blue), relay (cyan)")


def _sort_key(run: TransferRun) -> tuple[str, str]:
    return run.way, run.direction
