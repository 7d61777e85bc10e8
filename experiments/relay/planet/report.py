# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot, beside paper 001's counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from experiments.paper import paper001
from experiments.relay.planet.measure import Pair, RelayChoice, Run
from lab.results.figures import Figure, at_most, middle
from lab.results.pictures import save

WORSE_PERCENT = 0.5  # readings have noise
HEADER = (
    "set", "planet", "sender", "receiver", "rtt_ms", "ping", "ping_gain", "traceroute", "traceroute_gain", "ours",
    "ours_gain", "shared_ratio", "near_ratio", "any_count", "any_distance", "survives",
)  # fmt: skip
METHODS: dict[str, Callable[[Pair], RelayChoice]] = {
    "ping": lambda pair: pair.ping,
    "traceroute": lambda pair: pair.traceroute,
    "ours": lambda pair: pair.ours,
}


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    every = list(runs)
    for name in dict.fromkeys(run.set for run in every):
        yield from _of_set(name, [run for run in every if run.set == name])


def _of_set(name: str, runs: Sequence[Run]) -> Iterator[Figure]:
    published = paper001.counts(name)
    better = [_percent(len(run.relayed), len(run.pairs)) for run in runs]
    yield middle(f"{name}: ping finds a better relay", better, "% of pairs")
    yield _paper(published.better, published.pairs, "% of pairs")
    for what, told, in_paper in (
        ("(p, q) = (0, 1) leave it", lambda pair: pair.any_count, published.any_count),
        ("(x, y) = (0, 1) leave it", lambda pair: pair.any_distance, published.any_distance),
        ("both filters as printed leave it", lambda pair: pair.survives, published.survive),
        ("and traceroute draws it", lambda pair: pair.ping == pair.traceroute, None),
        ("ours takes it", lambda pair: pair.ping == pair.ours, None),
    ):
        shares = [_percent(sum(map(told, run.relayed)), len(run.relayed)) for run in runs]
        yield middle(f"  {what}", shares, "% of these")
        if in_paper is not None:
            yield _paper(in_paper, published.better, "% of these")
    for method, taken in METHODS.items():
        gains = [[taken(pair).gain for pair in run.pairs if taken(pair).relay] for run in runs]
        yield middle(f"  {method}: gain of what it takes", [100 * median(each) for each in gains], "%")
        worse = [_percent(sum(gain < 0 for gain in each), len(each)) for each in gains]
        promise = at_most(WORSE_PERCENT) if method == "ours" else None
        yield middle("    worse than direct", worse, "% of taken", promise)


def _paper(value: int, of: int, unit: str) -> Figure:
    share = _percent(value, of)
    return Figure(f"    paper 001: {value} of {of}", share, unit, 0, share, share)


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    for pair in run.pairs:
        taken = (each for way in METHODS.values() for each in (way(pair).relay, f"{way(pair).gain:.4f}"))
        ratios = ("" if ratio is None else f"{ratio:.4f}" for ratio in (pair.shared_ratio, pair.near_ratio))
        filters = (int(each) for each in (pair.any_count, pair.any_distance, pair.survives))
        yield run.set, run.seed, pair.sender, pair.receiver, f"{pair.rtt_ms:.3f}", *taken, *ratios, *filters


# Plot: paper 001's figures 7 to 10

STEP = 1 / 30  # as in the paper
MOST = 1.5


def draw(runs: Sequence[Run], file: Path) -> Path:
    first = [run for run in runs if run.seed == runs[0].seed]
    drawing = Drawing(figsize=(12, 4 * len(first)), layout="constrained")
    for (routers, delays), run in zip(drawing.subplots(len(first), 2, squeeze=False), first, strict=True):
        _ratios(routers, run, lambda pair: pair.shared_ratio, (0.0, 0.5), "routers shared, of the direct way's")
        _ratios(delays, run, lambda pair: pair.near_ratio, (0.9, 1.0), "RTT of the nearest of them, of the direct RTT")
    return save(drawing, file)


def _ratios(
    panel: Axes, run: Run, ratio: Callable[[Pair], float | None], limits: tuple[float, float], what: str
) -> None:
    told = [found for pair in run.relayed if (found := ratio(pair)) is not None]
    steps = np.arange(0, MOST + STEP, STEP)
    counts, _ = np.histogram(np.clip(told, 0, MOST - STEP / 2), steps)
    panel.axvspan(*limits, color="tab:green", alpha=0.15, label="what the filter keeps")
    panel.bar(steps[:-1], counts, STEP, align="edge", label=f"pairs, of {len(run.relayed)}")
    panel.set_xlabel(what)
    panel.set_ylabel("pairs in each 1/30")
    panel.set_title(run.set)
    sums = panel.twinx()
    sums.plot(steps[1:], np.cumsum(counts), color="tab:orange", label="added up")
    sums.set_ylim(0, len(run.relayed))
    sums.set_ylabel("pairs up to there")
    panel.legend(fontsize="small", loc="best")
