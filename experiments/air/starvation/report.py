# SPDX-License-Identifier: Apache-2.0
"""Figures: the part of its share that each capped terminal gets.

Its share is its rate with the rule off, at most the mean there: more is luck.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import mean

from experiments.air.starvation.measure import Run
from experiments.air.starvation.plan import HELD, PROMISED, RULES
from lab.results.figures import Figure, at_least, figure


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for mix in dict.fromkeys(run.mix for run in good):
        off, ideal = ([run for run in good if (run.mix, run.rule) == (mix, rule)] for rule in RULES)
        if not off or not ideal:
            continue
        shares = _shares(off)
        gets = [mean(run.bps[number] for run in ideal) for number in range(len(HELD))]
        parts = [got / share for got, share in zip(gets, shares, strict=True)]
        each = [bps / share for run in ideal for bps, share in zip(run.bps, shares, strict=True)]
        worst_off = min(bps for run in off for bps in run.bps)
        worst = min(bps for run in ideal for bps in run.bps)
        promise = None if mix.by_gateway else at_least(PROMISED)  # a gateway can lower windows, but not raise them
        measured = figure(f"{mix}: of its share, the one that gets least", min(parts), each, "", promise)
        yield replace(measured, n=len(ideal))
        yield figure("    the worst of any run, off", worst_off / 1e6, [worst_off / 1e6] * len(off), "Mbit/s")
        yield figure("    the worst of any run, ideal", worst / 1e6, [worst / 1e6] * len(ideal), "Mbit/s")


def _shares(off: Sequence[Run]) -> list[float]:
    gets = [mean(run.bps[number] for run in off) for number in range(len(HELD))]
    return [min(each, mean(gets)) for each in gets]
