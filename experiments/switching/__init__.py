"""Switching a live download between two paths, softly, again and again: what does it cost, and how soon does it act?

./bicast experiment switching            20 switches at 0.5 s by each hand, beside the same download left in peace
./bicast experiment switching --full     five rounds of that

Paper 002, section 3.3 and its reference 7 (an external program switches the primary subflow). Wi-Fi and LTE have
20 Mbit/s each, and 20 and 50 ms there and back. An order is timed from the start of `bicast-agent mptcp switch`, or
from the API's being asked what `./bicast switch` asks; and from the first MP_PRIO: the kernels' and the wire's share.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.figures import Figure, keep, table
from experiments import ExperimentFailed
from experiments.running import TREE
from experiments.switching import plot
from experiments.switching.results import figures, keep_switches
from experiments.switching.runs import FULL, QUICK, Plan, Run, carry_out
from topologies import isolate

DIRECTORY = TREE / "results" / "switching"


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    plan = FULL if args.full else QUICK
    runs: list[Run] = []
    try:
        for each in measure(plan, DIRECTORY):
            runs.append(each)
    finally:  # after Ctrl-C, too
        if runs:
            present(plan, runs, DIRECTORY, args.json)
    return 0


def measure(plan: Plan, directory: Path) -> Iterator[Run]:
    for each in carry_out(plan, directory):
        what = f"{len(each.switches)} switches" if each.switches else "left in peace"
        told = f"{each.hand.name}, sender's queue <= {each.queue}, {what}: {each.bps / 1e6:.1f} Mbit/s"
        rejected = f"; NOT COUNTED, the machine stalled: {each.stalled}" if each.stalled else ""
        print(f"{told}, longest pause {each.pause_s * 1000:.0f} ms{rejected}", file=sys.stderr, flush=True)
        yield each


def present(plan: Plan, runs: Sequence[Run], directory: Path, as_json: bool) -> None:
    found = list(figures(runs))
    if not found:
        raise ExperimentFailed("nothing was measured, or the machine stalled in all of it: try again when it is idle")
    keep(found, directory, plan.name)
    switches = directory / f"{plan.name}-switches.csv"
    keep_switches(runs, switches)
    picture = plot.draw(runs, directory / f"{plan.name}.png")
    rejected = sum(bool(each.stalled) for each in runs)
    if as_json:
        print(json.dumps(_document(found, rejected, switches, picture), indent=2))
        return
    print(table(found))
    print(f"\nRuns that do not count, because the machine stalled: {rejected} of {len(runs)}.")
    print(f"Every switch: {switches}\nPlot: {picture}")


def _document(found: Sequence[Figure], rejected: int, switches: Path, picture: Path) -> dict[str, object]:
    return {
        "experiment": "switching",
        "figures": [asdict(each) for each in found],
        "runs_left_out": rejected,
        "csv": str(switches),
        "plots": [str(picture)],
    }
