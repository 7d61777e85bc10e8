# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from experiments.switching.measure import Run, Switch
from lab.results.figures import Figure, Promise, at_least, at_most, exactly, figure, middle, worst
from lab.results.pictures import save
from topologies.switching import LTE_RTT_MS, WIFI_RTT_MS

ONE_WAY_MS = WIFI_RTT_MS / 2 + LTE_RTT_MS / 2  # the order on one path, the data on the other
MARGIN_MS = 15
PAUSE_MS = 150
THROUGHPUT = 0.95  # of the unswitched download's
HEADER = (
    "hand", "sender_queue", "run", "switch", "old", "new", "order_took_ms", "order_to_priority_ms",
    "order_to_first_data_ms", "priority_to_first_data_ms", "order_to_last_data_on_old_ms",
)  # fmt: skip


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for actor, queue in dict.fromkeys((run.actor, run.queue) for run in good):
        those = [run for run in good if (run.actor, run.queue) == (actor, queue)]
        switched = {run.number: run for run in those if run.switches}
        unswitched = {run.number: run for run in those if not run.switches}
        if switched:
            yield from _of_one(f"{actor.name}, sender's queue <= {queue}", actor.by_client, switched, unswitched)


def _of_one(name: str, by_client: bool, switched: dict[int, Run], unswitched: dict[int, Run]) -> Iterator[Figure]:
    runs, switches = list(switched.values()), [one for run in switched.values() for one in run.switches]
    orders = len(runs[0].switches)
    broken = [float(not run.streamed.whole) for run in (*runs, *unswitched.values())]
    yield figure(f"{name}: downloads whose bytes differ", sum(broken), broken, "downloads", exactly(0))
    told = [float(run.priorities_received) for run in runs]
    yield figure(f"  MP_PRIO received of {2 * orders} in {orders} switches", min(told), told, "", exactly(2 * orders))
    shares = [switched[number].bps / unswitched[number].bps for number in switched if number in unswitched]
    if shares:
        yield middle("  throughput, of the same download left in peace", shares, "", at_least(THROUGHPUT))
    yield middle("  throughput", [run.bps / 1e6 for run in runs], "Mbit/s")
    yield worst("  longest pause of the receiver", [run.pause_s * 1000 for run in runs], "ms", at_most(PAUSE_MS))
    if unswitched:
        yield worst("  the same, left in peace", [run.pause_s * 1000 for run in unswitched.values()], "ms")
    promise = at_most(ONE_WAY_MS + MARGIN_MS)
    for old, new in dict.fromkeys((one.old, one.new) for one in switches):
        those = [one for one in switches if one.new == new]
        yield from _spread(f"  order to first data, {old} to {new}", _after(those, "ordered", "first_data"), promise)
        if by_client:
            since = _after(those, "priority", "first_data")
            yield from _spread(f"  first MP_PRIO to first data, {old} to {new}", since, promise)
        yield from _spread(f"  order to last data by {old}", _after(those, "ordered", "last_data"), None)
    yield from _spread("  the order itself, until answered", [one.answered_after_s * 1000 for one in switches], None)


def _spread(what: str, values: Sequence[float], promise: Promise | None) -> Iterator[Figure]:
    if values:
        yield middle(f"{what}, median", values, "ms")
    if values and promise:
        yield worst(f"{what}, longest", values, "ms", promise)


def _after(switches: Iterable[Switch], one: str, other: str) -> list[float]:
    """Return milliseconds, where both moments are known."""
    pairs = ((getattr(each, one), getattr(each, other)) for each in switches)
    return [(later - sooner) * 1000 for sooner, later in pairs if sooner is not None and later is not None]


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    return (_row(run, number, one) for number, one in enumerate(run.switches, 1))


def _row(run: Run, number: int, one: Switch) -> tuple[object, ...]:
    told = (
        _span(one.ordered, one.priority), _span(one.ordered, one.first_data), _span(one.priority, one.first_data),
        _span(one.ordered, one.last_data),
    )  # fmt: skip
    place = (run.actor.name, run.queue, run.number, number, one.old, one.new)
    return (*place, f"{one.answered_after_s * 1000:.2f}", *told)


def _span(sooner: float | None, later: float | None) -> str:
    return "" if sooner is None or later is None else f"{(later - sooner) * 1000:.2f}"


COLOURS = {"lte": "tab:orange", "wifi": "tab:blue"}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    ways = list(dict.fromkeys((run.actor.name, run.queue) for run in good))
    drawing = Drawing(figsize=(11, 1.5 + 0.7 * len(ways)), layout="constrained")
    data, pauses = drawing.subplots(1, 2, sharey=True)
    for place, way in enumerate(ways):
        for run in (run for run in good if (run.actor.name, run.queue) == way):
            for one in run.switches:
                if one.first_data is not None:
                    after_ms = (one.first_data - one.ordered) * 1000
                    data.plot(after_ms, place, ".", color=COLOURS[one.new])
            marker, colour = ("o", "tab:red") if run.switches else ("s", "tab:grey")
            pauses.plot(run.pause_s * 1000, place, marker, color=colour)
    for new, colour in COLOURS.items():
        data.plot([], [], ".", color=colour, label=f"to {new}")
    data.axvline(ONE_WAY_MS + MARGIN_MS, color="grey", linestyle=":", label="promised")
    data.set_xlabel("order to first data by the new path, ms")
    data.set_yticks(range(len(ways)), [f"{actor}\nsender's queue <= {queue}" for actor, queue in ways])
    pauses.plot([], [], "o", color="tab:red", label="switched")
    pauses.plot([], [], "s", color="tab:grey", label="left in peace")
    pauses.axvline(PAUSE_MS, color="grey", linestyle=":", label="promised")
    pauses.set_xlabel("longest pause of the receiver, ms")
    for panel in (data, pauses):
        panel.set_xlim(left=0)
        panel.legend(fontsize="small", loc="upper right")
    data.invert_yaxis()
    return save(drawing, file)
