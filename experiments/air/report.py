# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot, beside the paper's bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from experiments.air.measure import Run
from experiments.air.plan import GATEWAY, IDEAL_GATEWAY, IDEAL_TERMINALS, OFF, Scene, Variant
from experiments.paper import paper000
from lab.results.figures import Figure, Promise, at_least, at_most, figure
from lab.results.pictures import save
from topologies.access_point import AIR_BPS

MIN_SHARE_OF_OFF, JAIN, RATIO, MAX_RETRANSMITS_PER_1000 = 0.98, 0.99, 3.0, 1.0
MAX_ENFORCER_GAP, PAPER_AHEAD = 0.05, 1.02
LOSSY = {
    1: 10.0,
    10: 2.0,
}  # promised multiple of an uncapped upload's goodput at the longest RTT, by number of terminals
LOSSY_RTT = "256"
SEGMENT_BITS = 1448 * 8
# Never idle: frames of 1514 bytes, and an ACK of 66 bytes for every two.
GOODPUT_BPS = AIR_BPS * 1448 / (1514 + 66 / 2)
HEADER = (
    "terminals", "rtt_ms", "connections", "loss_percent", "contention", "window_scale", "variant", "total_mbps", "jain",
    "srtt_ms", "rtt_ratio", "cwnd", "sent_again", "ping_ms", "newcomer_s", "held", "mbps_of_each",
)  # fmt: skip
HEADS = (
    "variant", "Mbit/s", "of off", "Jain", "srtt ms", "RTT x", "ping ms", "cwnd", "paper's", "again", "newcomer s",
)  # fmt: skip
PREFACE = """\
Uploads over one air of 20 Mbit/s with 1.5 MB of queue each way, counted in the second half of each run.
RTT x: srtt by the least RTT; again: segments sent again of 1000, from the beginning; newcomer: until one that begins
later has 90 % of its share for 0.5 s; paper's: most-least by paper 000's table 2 for so many terminals, which its table
3 may lower. The gateway's hand has no floor: under loss, what the terminals' hand brings beyond it is its gain."""
PRINTED = """\
Paper 000 shows its totals (figures 15 and 16) as pictures, without numbers: with its control they grow, on GB at 4 ms
mainly for few terminals and at 256 ms for many, on JB throughout."""


def good(runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if not run.stalled]


def by_scene(runs: Iterable[Run]) -> dict[Scene, dict[Variant, list[Run]]]:
    found: dict[Scene, dict[Variant, list[Run]]] = {}
    for run in good(runs):
        found.setdefault(run.task.scene, {}).setdefault(run.task.variant, []).append(run)
    return dict(sorted(found.items(), key=_sort_key))


def _sort_key(item: tuple[Scene, object]) -> tuple[object, ...]:
    scene = item[0]
    special = (scene.window_scale, scene.contention, scene.loss_percent, scene.connections)
    return (*special, scene.mixed, scene.least_rtt_ms, scene.terminals)


def total(runs: Sequence[Run]) -> float:
    return median(run.total_bps for run in runs)


def retransmits_per_1000(run: Run) -> float:
    sent = run.total_bps * run.seconds / SEGMENT_BITS
    return 1000 * run.retransmits / sent if sent else 0.0


def summary(runs: Iterable[Run]) -> str:
    parts = [PREFACE]
    for scene, variants in by_scene(runs).items():
        off = variants.get(OFF)
        rows = [HEADS, *(_line(scene, variant, those, off) for variant, those in variants.items())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        parts.append("\n".join([str(scene), *lines]))
    return "\n\n".join([*parts, PRINTED])


def _line(scene: Scene, variant: Variant, runs: Sequence[Run], off: Sequence[Run] | None) -> tuple[str, ...]:
    def middle_of(values: Iterable[float]) -> float:
        return median(list(values))

    newcomers = [run.newcomer_s for run in runs]
    came = [each for each in newcomers if each is not None]
    newcomer = "-" if scene.terminals == 1 else f"{median(came):.1f}" if len(came) == len(newcomers) else "never"
    bounds = paper000.bounds(variant.tables, scene.terminals, scene.least_rtt_ms)
    return (
        str(variant) + ("" if all(run.is_held for run in runs) else " (NOT HELD)"),
        f"{total(runs) / 1e6:.2f}",
        f"{total(runs) / total(off):.2f}" if off else "-",
        f"{middle_of(run.jain for run in runs):.3f}" if scene.terminals > 1 else "-",
        f"{middle_of(run.srtt_ms for run in runs):.1f}",
        f"{middle_of(run.ratio for run in runs):.2f}",
        f"{middle_of(run.ping_ms for run in runs):.1f}",
        f"{middle_of(run.cwnd for run in runs):.0f}",
        f"{bounds[0]}-{bounds[1]}" if variant.rule == "paper" and not scene.mixed else "-",
        f"{middle_of(retransmits_per_1000(run) for run in runs):.1f}",
        newcomer,
    )


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    found = by_scene(runs)
    for scene, variants in found.items():
        for number, (variant, those) in enumerate(variants.items()):
            yield from _of_variant(scene, variant, those, variants, f"{scene}; " if number == 0 else "  ")
    yield from _of_enforcers(found)
    missed = [float(not run.is_held) for run in good(runs)]
    if missed:
        nobody = Promise("0", lambda value: value == 0)
        yield figure("runs whose caps were not held as wanted", sum(missed), missed, "runs", nobody)


def _of_variant(
    scene: Scene,
    variant: Variant,
    runs: Sequence[Run],
    beside: dict[Variant, list[Run]],
    head: str,
) -> Iterator[Figure]:
    off = beside.get(OFF)
    values = [run.total_bps / 1e6 for run in runs]
    yield figure(f"{head}{variant}: total", median(values), values, "Mbit/s")
    if off and variant != OFF:
        ratios = [run.total_bps / total(off) for run in runs]
        yield figure("    of off's", median(ratios), ratios, "", _total_promise(scene, variant))
    plain = not scene.loss_percent and not scene.contention and not scene.window_scale
    ideal = variant.rule == "ideal" and plain
    if ideal:
        parts = [run.total_bps / GOODPUT_BPS for run in runs]
        yield figure("    of what the air brings", median(parts), parts, "", at_least(MIN_SHARE_OF_OFF))
    if scene.equal:
        jains = [run.jain for run in runs]
        yield figure("    Jain's index", median(jains), jains, "", at_least(JAIN) if ideal else None)
    ratios = [run.ratio for run in runs]
    yield figure("    srtt / least RTT", median(ratios), ratios, "", at_most(RATIO) if ideal else None)
    if ideal:
        retransmits = [retransmits_per_1000(run) for run in runs]
        yield figure("    sent again", median(retransmits), retransmits, "of 1000", at_most(MAX_RETRANSMITS_PER_1000))
    if variant.rule == "paper" and (ours := beside.get(IDEAL_TERMINALS)) and not scene.loss_percent:
        ahead = [run.total_bps / total(ours) for run in runs]
        yield figure("    of ideal's", median(ahead), ahead, "", at_most(PAPER_AHEAD))


def _total_promise(scene: Scene, variant: Variant) -> Promise | None:
    if variant.rule != "ideal" or scene.window_scale:
        return None
    if scene.loss_percent:
        if variant.enforcer == GATEWAY:  # gateways enforce no lower limit
            return None
        return at_least(LOSSY[scene.terminals]) if scene.rtt == LOSSY_RTT and scene.terminals in LOSSY else None
    return at_least(1.0) if scene.contention else at_least(MIN_SHARE_OF_OFF)


def _of_enforcers(found: dict[Scene, dict[Variant, list[Run]]]) -> Iterator[Figure]:
    for scene, variants in found.items():
        if IDEAL_TERMINALS in variants and IDEAL_GATEWAY in variants and not scene.loss_percent:
            apart = total(variants[IDEAL_GATEWAY]) / total(variants[IDEAL_TERMINALS]) - 1
            what = f"{scene}: the gateway's hand beside the terminals', total"
            promise = Promise(f"+-{MAX_ENFORCER_GAP:g}", lambda value: abs(value) <= MAX_ENFORCER_GAP)
            yield figure(what, apart, [apart], "", promise)


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    scene = run.task.scene
    place = (scene.terminals, scene.rtt, scene.connections, scene.loss_percent, scene.contention, scene.window_scale)
    numbers = (run.total_bps / 1e6, run.jain, run.srtt_ms, run.ratio, run.cwnd)
    newcomer = "" if run.newcomer_s is None else f"{run.newcomer_s:.2f}"
    each = " ".join(f"{bps / 1e6:.2f}" for bps in run.bps)
    rest = (run.retransmits, f"{run.ping_ms:.1f}", newcomer, run.capped, each)
    yield (*place, run.task.variant, *(f"{number:.3f}" for number in numbers), *rest)


# Plot: totals, fairness and round trips

SHOWN: tuple[tuple[str, Callable[[Run], float]], ...] = (
    ("total, Mbit/s", lambda run: run.total_bps / 1e6),
    ("Jain's index", lambda run: run.jain),
    ("srtt / least RTT", lambda run: run.ratio),
)
Scenes = dict[Scene, dict[Variant, list[Run]]]


def draw(runs: Sequence[Run], file: Path) -> Path:
    found = by_scene(runs)
    plain = {scene: each for scene, each in found.items() if scene == Scene(scene.terminals, scene.rtt)}
    special = {scene: each for scene, each in found.items() if scene not in plain}
    rtts = list(dict.fromkeys(scene.rtt for scene in plain))
    variants = dict.fromkeys(variant for each in plain.values() for variant in each)
    colours = {variant: f"C{number}" for number, variant in enumerate(variants)}
    drawing = Drawing(figsize=(3.4 * max(len(rtts), 3), 3 * len(SHOWN) + 3), layout="constrained")
    above, below = drawing.subfigures(2, 1, squeeze=False, height_ratios=(len(SHOWN), 1))[:, 0]
    panels = above.subplots(len(SHOWN), max(len(rtts), 1), squeeze=False, sharex=True, sharey="row")
    for row, (what, value) in zip(panels, SHOWN, strict=True):
        row[0].set_ylabel(what)
        for panel, rtt in zip(row, rtts, strict=False):
            _curves(panel, {scene: each for scene, each in plain.items() if scene.rtt == rtt}, value, colours)
    for panel, rtt in zip(panels[0], rtts, strict=False):
        panel.set_title(f"{rtt} ms", fontsize="medium")
    for panel in panels[-1]:
        panel.set_yscale("log")
        panel.set_xlabel("terminals")
    handles, labels = panels[0][0].get_legend_handles_labels()
    if handles:
        above.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")
    _bars(below.subplots(), special)
    return save(drawing, file)


def _curves(panel: Axes, scenes: Scenes, value: Callable[[Run], float], colours: Mapping[Variant, str]) -> None:
    for variant, colour in colours.items():
        points = [(scene.terminals, each[variant]) for scene, each in scenes.items() if variant in each]
        middles = [median(value(run) for run in runs) for _, runs in points]
        panel.plot([at for at, _ in points], middles, "o-", color=colour, label=str(variant))


def _bars(panel: Axes, scenes: Scenes) -> None:
    names, totals = [], []
    for scene, variants in scenes.items():
        for variant, runs in variants.items():
            names.append(f"{scene}; {variant}")
            totals.append(median(run.total_bps / 1e6 for run in runs))
    panel.barh(names, totals)
    panel.invert_yaxis()
    panel.tick_params(axis="y", labelsize="x-small")
    panel.set_xlabel("total, Mbit/s")
