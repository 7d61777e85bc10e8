"""What the choices come to, beside paper 001's counts, and a line for each pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from experiments import paper001
from experiments.relay.planet.choices import Pair, Run, Taken
from lab.results.figures import Figure, at_most, middle

WORSE_PERCENT = 0.5  # of ours: readings have noise
HEADER = (
    "set", "planet", "sender", "receiver", "rtt_ms", "ping", "ping_gain", "traceroute", "traceroute_gain", "ours",
    "ours_gain", "shared_ratio", "near_ratio", "any_count", "any_distance", "survives",
)  # fmt: skip
METHODS: dict[str, Callable[[Pair], Taken]] = {
    "ping": lambda pair: pair.ping,
    "traceroute": lambda pair: pair.traceroute,
    "ours": lambda pair: pair.ours,
}


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    every = list(runs)
    for name in dict.fromkeys(run.set for run in every):
        yield from _of_set(name, [run for run in every if run.set == name])


def _of_set(name: str, runs: Sequence[Run]) -> Iterator[Figure]:
    said = paper001.said(name)
    better = [_percent(len(run.relayed), len(run.pairs)) for run in runs]
    yield middle(f"{name}: ping finds a better relay", better, "% of pairs")
    yield _paper(said.better, said.pairs, "% of pairs")
    for what, told, in_paper in (
        ("(p, q) = (0, 1) leave it", lambda pair: pair.any_count, said.any_count),
        ("(x, y) = (0, 1) leave it", lambda pair: pair.any_distance, said.any_distance),
        ("both filters as printed leave it", lambda pair: pair.survives, said.survive),
        ("and traceroute draws it", lambda pair: pair.ping == pair.traceroute, None),
        ("ours takes it", lambda pair: pair.ping == pair.ours, None),
    ):
        shares = [_percent(sum(map(told, run.relayed)), len(run.relayed)) for run in runs]
        yield middle(f"  {what}", shares, "% of these")
        if in_paper is not None:
            yield _paper(in_paper, said.better, "% of these")
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
