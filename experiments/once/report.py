# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp, lgamma, log
from pathlib import Path
from statistics import NormalDist, median

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import FillStyleType

from experiments.once.datagrams import CUT_S, DOWN, RATE_PPS, THIN_PPS, UP, CutRun, DatagramRun, PingRun
from experiments.once.measure import (
    FOLLOWED_WITHIN_S,
    REPORTED_WITHIN_S,
    AddressChangeRun,
    DeathRun,
    FloodRun,
    Run,
    TunnelRun,
    goodput_share_in_tunnels,
)
from experiments.once.plan import OFF, ONCE, SINGLE, TWICE, UPLOADS, Losses
from experiments.once.transfers import BLACK_S, LOSSES, RATE_PER_S, BlackoutRun, BulkRun, RequestRun, UploadRun
from lab.results.figures import Figure, Promise, at_most, exactly, figure, middle, percentile, worst
from lab.results.pictures import save

# Losses by chance

SIGMAS = 4.5


def interval(tries: int, chance: float) -> tuple[int, int]:
    """Return a binomial interval with the tails of SIGMAS in a normal distribution."""
    if chance in (0, 1):
        return round(tries * chance), round(tries * chance)
    beyond = NormalDist().cdf(-SIGMAS)
    odds = [_probability(each, tries, chance) for each in range(tries + 1)]
    return _tail(odds, beyond), tries - _tail(odds[::-1], beyond)


def _probability(hits: int, tries: int, chance: float) -> float:
    ways = lgamma(tries + 1) - lgamma(hits + 1) - lgamma(tries - hits + 1)
    return exp(ways + hits * log(chance) + (tries - hits) * log(1 - chance))


def _tail(odds: Sequence[float], beyond: float) -> int:
    """Return how many outcomes, from the first on, have a total probability below `beyond`."""
    total = 0.0
    for number, each in enumerate(odds):
        total += each
        if total >= beyond:
            return number
    return len(odds)


LOST_PER_CUT, PAUSE_MS = 2, 100
LEFT_MS = 1000
COUNTED = ("what", "how", "mode", "way", "sent", "lost", "duplicated", "p50_ms", "p99_ms", "longest_ms")
HEADER = (*COUNTED, "mbit_s", "dsacks", "sent_again", "in_vain", "wire_percent")
# For 48.8 MB with one path black in the middle, by MPTCP scheduler; published, not verified here.
PUBLISHED = (("default", 106, 106), ("redundant, screened", 246, 293), ("redundant, unscreened", 1900, 1900))


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for deluge in (run for run in good if isinstance(run, FloodRun)):
        yield from _of_deluge(deluge)
    yield from _of_pings([run for run in good if isinstance(run, PingRun)])
    yield from _of_flows([run for run in good if isinstance(run, DatagramRun)])
    yield from _of_questions([run for run in good if isinstance(run, RequestRun)])
    yield from _of_cuts([run for run in good if isinstance(run, CutRun)])
    yield from _of_uploads([run for run in good if isinstance(run, UploadRun)])
    yield from _of_bulk([run for run in good if isinstance(run, BulkRun)])
    yield from _of_blacks([run for run in good if isinstance(run, BlackoutRun)])
    yield from _of_deaths([run for run in good if isinstance(run, DeathRun)])
    tunnelled = [run for run in good if isinstance(run, TunnelRun)]
    yield from _of_pings([run.run for run in tunnelled if isinstance(run.run, PingRun)], " through tunnels")
    yield from _of_tunnels(tunnelled, [run for run in good if isinstance(run, BulkRun)])
    yield from _of_followed([run for run in good if isinstance(run, AddressChangeRun)])


def _of_deluge(run: FloodRun) -> Iterator[Figure]:
    head = f"{run.sent} packets of 1000 flows, skew 0 to 200 ms, jitter, bursts of loss"
    yield middle(f"{head}: lost by elimination", [run.lost_by_elimination], "packets", exactly(0))
    yield middle("  lost by both paths", [run.lost_by_both], "packets")
    yield middle("  delivered", [run.delivered], "packets")
    yield middle("  duplicated, while the table grew or copies came late", [run.duplicated], "packets")
    yield middle("  window, in the end", [run.window_ms], "ms")
    yield middle(f"  room, grown from {run.room_before}", [run.room], "packets")
    yield middle("  packets a second", [run.sent / run.seconds], "1/s")


def _of_pings(runs: Sequence[PingRun], through: str = "") -> Iterator[Figure]:
    for scenario in dict.fromkeys(run.scenario for run in runs):
        those = [run for run in runs if run.scenario == scenario]
        head = f"{those[0].sent} pings at 10 ms{through}, {scenario.name}"
        yield worst(f"{head}: lost", [float(run.lost) for run in those], "pings", exactly(0))
        most = at_most(scenario.max_duplicates) if scenario.max_duplicates else exactly(0)
        yield worst("  duplicated", [float(run.duplicates) for run in those], "pings", most)


def _of_flows(runs: Sequence[DatagramRun]) -> Iterator[Figure]:
    for mode, losses in dict.fromkeys((run.mode, run.losses) for run in runs):
        ways = [way for run in runs if (run.mode, run.losses) == (mode, losses) for way in run.ways.values()]
        sent, lost = sum(way.sent for way in ways), sum(len(way.lost) for way in ways)
        shares = [100 * len(way.lost) / way.sent for way in ways]
        promise = _by_chance(losses, sent) if mode == ONCE else None
        told = f"{sent} datagrams, both ways, {losses}, {mode}: lost"
        yield figure(told, 100 * lost / sent, shares, "%", promise)
    ours = [float(way.duplicates) for run in runs if run.mode == ONCE for way in run.ways.values()]
    if ours:
        yield figure(f"  duplicated in all of these in {ONCE}", sum(ours), ours, "datagrams", exactly(0))
        yield _lateness(runs)


def _by_chance(losses: Losses, sent: int) -> Promise:
    """Return the percentage that both paths lose."""
    least, most = interval(sent, losses.both)

    def kept(percent: float) -> bool:
        return least <= round(percent * sent / 100) <= most

    return Promise(f"{100 * least / sent:.2g} to {100 * most / sent:.2g}", kept)


def _of_questions(runs: Sequence[RequestRun]) -> Iterator[Figure]:
    for number, mode in enumerate(dict.fromkeys(run.mode for run in runs)):
        took_ms = [each * 1000 for run in runs if run.mode == mode for each in run.took_s]
        head = f"1 kB asked and answered by TCP, {RATE_PER_S}/s, {LOSSES}; " if number == 0 else "  "
        yield middle(f"{head}{mode}, median", took_ms, "ms")
        yield figure(f"  {mode}, p99", percentile(took_ms, 99), took_ms, "ms")
        yield worst(f"  {mode}, longest", took_ms, "ms")


def _of_cuts(runs: Sequence[CutRun]) -> Iterator[Figure]:
    for number, mode in enumerate(dict.fromkeys(run.mode for run in runs)):
        those = [run for run in runs if run.mode == mode]
        lost = [float(each) for run in those for way in run.ways for each in run.lost(way)]
        head = f"Wi-Fi cut and healed every {CUT_S:g} s, {THIN_PPS} datagrams/s each way; " if number == 0 else "  "
        ours = mode == ONCE
        yield worst(f"{head}{mode}, lost at a cut", lost, "datagrams", at_most(LOST_PER_CUT) if ours else None)
        duplicates = [float(way.duplicates) for run in those for way in run.ways.values()]
        yield figure(f"  {mode}, duplicated", sum(duplicates), duplicates, "datagrams", exactly(0) if ours else None)
    if runs:
        yield _lateness(runs)


def _lateness(runs: Sequence[DatagramRun] | Sequence[CutRun]) -> Figure:
    """Return the senders' largest delay: a copy that is delayed beyond the window passes."""
    late_ms = [way.lateness_s * 1000 for run in runs for way in run.ways.values()]
    return worst("  the senders' own lateness", late_ms, "ms")


def _of_uploads(runs: Sequence[UploadRun]) -> Iterator[Figure]:
    if runs:
        broken = [float(not run.streamed.whole) for run in runs]
        yield figure(
            "an upload under such cuts: uploads whose bytes differ", sum(broken), broken, "uploads", exactly(0)
        )
    for run in runs:
        pauses_ms = [each * 1000 for each in run.pauses_s]
        promise = at_most(PAUSE_MS) if run.mode == ONCE else None
        head = f"  {run.mode}, {run.queue_ms:g} ms waiting on LTE, longest pause at a cut"
        yield worst(head, pauses_ms, "ms", promise)
        yield middle(f"  {run.mode}, the same, median of the cuts", pauses_ms, "ms")
        yield middle(f"  {run.mode}, goodput before the first cut", [run.bps / 1e6], "Mbit/s")


def _of_bulk(runs: Sequence[BulkRun]) -> Iterator[Figure]:
    if runs:
        broken = [float(not run.whole) for run in runs]
        yield figure(
            "bulk over clean paths: transfers whose bytes differ", sum(broken), broken, "transfers", exactly(0)
        )
    for way, how in dict.fromkeys((run.way, run.how) for run in runs):
        those = [run for run in runs if (run.way, run.how) == (way, how)]
        yield middle(f"  {way}, {how}: goodput", [run.bps / 1e6 for run in those], "Mbit/s")
        for what, counts in (
            ("DSACKs", [run.dsacks for run in those]),
            ("segments sent again", [run.retransmits for run in those]),
        ):
            shares = [run.per_1000_segments(count) for run, count in zip(those, counts, strict=True)]
            yield middle(f"    {what}", shares, "of 1000")
        yield middle(
            "    the sender's reactions to losses that were none",
            [run.spurious_reactions for run in those],
            "reactions",
        )


def _of_blacks(runs: Sequence[BlackoutRun]) -> Iterator[Figure]:
    for number, mode in enumerate(dict.fromkeys(run.mode for run in runs)):
        those = [run for run in runs if run.mode == mode]
        head = f"48.8 MB downloaded, Wi-Fi black for {BLACK_S:g} s in the middle; " if number == 0 else "  "
        yield middle(f"{head}{mode}, on the wires", [run.wire_percent for run in those], "% of payload")
        yield worst(f"  {mode}, longest stall", [run.stall_s * 1000 for run in those], "ms")
        broken = [float(not run.streamed.whole) for run in those]
        yield figure(f"  {mode}, downloads whose bytes differ", sum(broken), broken, "downloads", exactly(0))
    for scheduler, low, high in PUBLISHED if runs else ():
        what = f"  as OpenMPTCProuter published for a test of this kind, unverified: {scheduler}"
        yield Figure(what, high, "% of payload", 0, low, high)


def _of_deaths(runs: Sequence[DeathRun]) -> Iterator[Figure]:
    if runs:
        reported_s = [run.reported_s for run in runs]
        yield worst("Wi-Fi dies silently: told after", reported_s, "s", at_most(REPORTED_WITHIN_S))
    for site in runs[0].cleared_s if runs else ():
        left_ms = [run.cleared_s[site] * 1000 for run in runs]
        yield worst(f"  then out of all groups at {site} within", left_ms, "ms", at_most(LEFT_MS))


def _of_tunnels(tunnelled: Sequence[TunnelRun], plain: Sequence[BulkRun]) -> Iterator[Figure]:
    inside = [run.run for run in tunnelled if isinstance(run.run, BulkRun)]
    broken = [float(not run.whole) for run in inside]
    if inside:
        what = "bulk through tunnels: transfers whose bytes differ"
        yield figure(what, sum(broken), broken, "transfers", exactly(0))
        largest_bytes = [run.largest_bytes for run in tunnelled]
        yield middle("  they take IP packets of", largest_bytes, "bytes")
        left = [100 * goodput_share_in_tunnels(each) for each in largest_bytes]
        yield middle("  their headers alone leave", left, "% of goodput over Ethernet")
    for way, how in dict.fromkeys((run.way, run.how) for run in inside):
        bps = [run.bps for run in inside if (run.way, run.how) == (way, how)]
        yield middle(f"  {way}, {how}: goodput", [each / 1e6 for each in bps], "Mbit/s")
        beside = [run.bps for run in plain if (run.way, run.how) == (way, how)]
        if beside:
            shares = [100 * each / median(beside) for each in bps]
            yield middle("    of the same over Ethernet, above", shares, "%")


def _of_followed(runs: Sequence[AddressChangeRun]) -> Iterator[Figure]:
    for number, mode in enumerate(dict.fromkeys(run.mode for run in runs)):
        those = [run for run in runs if run.mode == mode]
        head = "Wi-Fi's NAT has another outer address; " if number == 0 else "  "
        yield worst(f"{head}{mode}, followed after", [run.took_s for run in those], "s", at_most(FOLLOWED_WITHIN_S))
        none = exactly(0) if mode == ONCE else None
        yield worst(
            f"  {mode}, lost meanwhile of {2 * RATE_PPS}/s", [float(run.lost) for run in those], "datagrams", none
        )
        yield worst(f"  {mode}, duplicated", [float(run.duplicates) for run in those], "datagrams", none)


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    return ((*row, *[""] * (len(HEADER) - len(row))) for row in _rows(run))


def _rows(run: Run) -> Iterator[tuple[object, ...]]:
    match run:
        case PingRun():
            yield "pings", run.scenario.name, ONCE, "there and back", run.sent, run.lost, run.duplicates, "", "", ""
        case DatagramRun() | CutRun():
            told = str(run.losses) if isinstance(run, DatagramRun) else f"{len(run.moments)} cuts"
            for way, each in run.ways.items():
                yield "datagrams", told, run.mode, way, each.sent, len(each.lost), each.duplicates, "", "", ""
        case RequestRun():
            spans = (f"{percentile(run.took_s, percent) * 1000:.2f}" for percent in (50, 99, 100))
            yield "questions", str(LOSSES), run.mode, "there and back", len(run.took_s), "", "", *spans
        case UploadRun():
            for number, pause_s in enumerate(run.pauses_s, 1):
                yield (
                    "upload",
                    f"cut {number}, {run.queue_ms:g} ms waiting on LTE",
                    run.mode,
                    "up",
                    "",
                    "",
                    "",
                    "",
                    "",
                    f"{pause_s * 1000:.1f}",
                )
        case FloodRun():
            told = f"{run.lost_by_both} lost by both paths"
            yield "deluge", told, ONCE, "one way", run.sent, run.lost_by_elimination, run.duplicated
        case BulkRun():
            blank = ("", "", "", "", "")
            counts = (run.dsacks, run.retransmits, run.spurious_reactions)
            yield "bulk", "clean paths", run.how, run.way, run.segments, *blank, f"{run.bps / 1e6:.2f}", *counts
        case BlackoutRun():
            blank = ("", "", "", "", "")
            stall, wire = f"{run.stall_s * 1000:.1f}", f"{run.wire_percent:.1f}"
            yield "black", "Wi-Fi, in the middle", run.mode, "down", *blank, stall, "", "", "", "", wire
        case DeathRun():
            for told, each_s in {
                "told": run.reported_s,
                **{f"out at {site}": s for site, s in run.cleared_s.items()},
            }.items():
                yield "death", told, ONCE, "", "", "", "", "", "", f"{each_s * 1000:.1f}"
        case TunnelRun():
            yield from ((f"{what} through tunnels", *rest) for what, *rest in _rows(run.run))
        case AddressChangeRun():
            for way, each in run.ways.items():
                counts = (each.sent, len(each.lost), each.duplicates)
                yield "followed", "another outer address", run.mode, way, *counts, "", "", f"{run.took_s * 1000:.1f}"


COLOURS = {ONCE: "tab:blue", SINGLE: "tab:orange", OFF: "tab:grey", TWICE: "tab:green"}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    drawing = Drawing(figsize=(14, 9), layout="constrained")
    (lost, took, cuts), (bulk, black, deaths) = drawing.subplots(2, 3)
    _losses(lost, [run for run in good if isinstance(run, DatagramRun)])
    _answers(took, [run for run in good if isinstance(run, RequestRun)])
    _cuts(cuts, good)
    _bulk(bulk, [run for run in good if isinstance(run, BulkRun)])
    inside = [run.run for run in good if isinstance(run, TunnelRun)]
    _bulk(bulk, [run for run in inside if isinstance(run, BulkRun)], " through tunnels", fillstyle="none")
    _blacks(black, [run for run in good if isinstance(run, BlackoutRun)])
    _deaths(deaths, [run for run in good if isinstance(run, DeathRun)])
    _followed(deaths, [run for run in good if isinstance(run, AddressChangeRun)])
    for panel in (bulk, deaths):
        panel.set_ylim(bottom=0)
    for panel in (lost, took, cuts, bulk, black, deaths):
        if panel.get_legend_handles_labels()[1]:
            panel.legend(fontsize="small")
    return save(drawing, file)


def _losses(panel: Axes, runs: Sequence[DatagramRun]) -> None:
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


def _answers(panel: Axes, runs: Sequence[RequestRun]) -> None:
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
        if isinstance(run, CutRun):
            lost = [sum(each) for each in zip(*(run.lost(way) for way in run.ways), strict=True)]
            panel.plot(range(1, len(lost) + 1), lost, "o", color=COLOURS[run.mode], label=f"{run.mode}: datagrams lost")
        elif isinstance(run, UploadRun):
            pauses_ms = [each * 1000 for each in run.pauses_s]
            label = f"{run.mode}: an upload's pause, ms ({run.queue_ms:g} waiting on LTE)"
            mark = "x" if run.queue_ms == UPLOADS[run.mode][0] else "+"
            panel.plot(range(1, len(pauses_ms) + 1), pauses_ms, mark, color=COLOURS[run.mode], label=label)
    panel.set_yscale("symlog", linthresh=1)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("cut of Wi-Fi")


def _bulk(panel: Axes, runs: Sequence[BulkRun], through: str = "", fillstyle: FillStyleType = "full") -> None:
    known = set[str]()
    for run in runs:
        label = "" if run.how in known else run.how + through
        known.add(run.how)
        mark = {UP: "^", DOWN: "v"}[run.way]
        panel.plot(
            run.per_1000_segments(run.dsacks),
            run.bps / 1e6,
            mark,
            color=COLOURS[run.how],
            label=label,
            fillstyle=fillstyle,
        )
    panel.set_xscale("symlog", linthresh=1)
    panel.set_xlabel("DSACKs of 1000 segments")
    panel.set_ylabel("bulk up and down (the way of the triangle), Mbit/s")


def _blacks(panel: Axes, runs: Sequence[BlackoutRun]) -> None:
    for run in runs:
        since_s = [moment - run.moment for moment in run.streamed.moments]
        come_mb = [size / 1e6 for size in run.streamed.sizes]
        label = f"{run.mode}: {run.wire_percent:.0f} % on the wires"
        panel.plot(since_s, come_mb, drawstyle="steps-post", color=COLOURS[run.mode], label=label)
    panel.axvspan(0, BLACK_S, color="0.9")
    panel.set_xlabel("s since Wi-Fi is black, for as long as is grey")
    panel.set_ylabel("MB downloaded")


def _deaths(panel: Axes, runs: Sequence[DeathRun]) -> None:
    for number, run in enumerate(runs, 1):
        label = "" if number > 1 else "told"
        panel.plot(number, run.reported_s, "o", color="tab:red", label=label)
        for (site, cleared_s), mark in zip(run.cleared_s.items(), "<>", strict=True):
            label = "" if number > 1 else f"out of the groups at {site}"
            panel.plot(number, run.reported_s + cleared_s, mark, color="tab:purple", label=label)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("silent death of Wi-Fi, or change of its NAT's outer address")
    panel.set_ylabel("s after it")


def _followed(panel: Axes, runs: Sequence[AddressChangeRun]) -> None:
    for mode in dict.fromkeys(run.mode for run in runs):
        took_s = [run.took_s for run in runs if run.mode == mode]
        panel.plot(range(1, len(took_s) + 1), took_s, "x", color=COLOURS[mode], label=f"{mode}: address followed")
