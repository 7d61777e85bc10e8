"""The downloads of `experiment transfer --quick`, and of all that they show, what was promised of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from experiments.transfer.measure import DIRECTORY, Rows, measure_missing
from experiments.transfer.plan import quick
from experiments.transfer.report import Results, Verdict, limit_bps, verdicts
from lab.results.figures import Figure


def measure() -> Iterator[Figure]:
    plan = quick()
    rows = Rows(DIRECTORY / f"{plan.name}.csv")
    rows.clear()
    measure_missing(plan, rows)
    results = Results(rows.read(), plan.size_bytes)
    print(f"bench: every download is in {rows.file}", file=sys.stderr, flush=True)
    for verdict in verdicts(results):
        yield figure_of(results, verdict)


def figure_of(results: Results, verdict: Verdict) -> Figure:
    """Its spread is the widest that the single downloads allow."""
    assert verdict.measured is not None and verdict.where is not None, "the plan has what is promised"
    bicast = results.reading(verdict.setting, verdict.where, "bicast")
    plain = results.reading(verdict.setting, verdict.where, "plain")
    assert bicast is not None
    least, most = bicast.least, bicast.most
    if verdict.setting.congestion_control == "cubic":
        assert plain is not None
        low, high = least / plain.most, most / plain.least
    else:
        allowed_s = results.size_bytes * 8 / limit_bps(verdict.setting)
        low, high = least / allowed_s, most / allowed_s
    up, down = verdict.where
    what = f"{verdict.setting}: {verdict.promise} (here at {up} % up, {down} % down)"
    return Figure(what, verdict.measured, "", verdict.n, low, high, f"<= {verdict.bound:g}", verdict.met)
