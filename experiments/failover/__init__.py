"""The active path dies under a transfer: for how long does its receiver get nothing?

./bicast experiment failover            every death and every way once
./bicast experiment failover --full     ten times

Wi-Fi is active and dies, LTE is backup; 20 Mbit/s each, 20 and 50 ms there and back. The ways: the kernel's defaults,
without bicast and with it; `bicast mptcp setup` at both ends; an agent at the end that sends, with the reflex that the
controller arms; both; and both with the controller killed before, where the reflex holds until its lease is over (30 s)
and what remains after that is `bicast mptcp setup`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.figures import keep, table
from experiments import ExperimentFailed
from experiments.failover import plot
from experiments.failover.plan import FULL, QUICK, Plan
from experiments.failover.results import figures, keep_runs
from experiments.failover.runs import Run, carry_out
from experiments.running import TREE
from topologies import isolate

DIRECTORY = TREE / "results" / "failover"


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
    for each in carry_out(plan.tasks, directory):
        task = each.task
        rejected = f"; NOT COUNTED, the machine stalled: {each.stalled}" if each.stalled else ""
        told = f"{task.number}/{plan.rounds} {task.fault}, {task.direction}, {task.way.name}: "
        print(f"{told}{each.pause_s * 1000:.0f} ms{rejected}", file=sys.stderr, flush=True)
        yield each


def present(plan: Plan, runs: Sequence[Run], directory: Path, as_json: bool) -> None:
    found = list(figures(runs))
    if not found:
        raise ExperimentFailed("nothing was measured, or the machine stalled in all of it: try again when it is idle")
    keep(found, directory, plan.name)
    every = directory / f"{plan.name}-runs.csv"
    keep_runs(runs, every)
    picture = plot.draw(runs, directory / f"{plan.name}.png")
    rejected = sum(bool(each.stalled) for each in runs)
    if as_json:
        told = {"experiment": "failover", "figures": [asdict(each) for each in found], "runs_left_out": rejected}
        print(json.dumps(told | {"csv": str(every), "plots": [str(picture)]}, indent=2))
        return
    print(table(found))
    print(f"\nRuns that do not count, because the machine stalled: {rejected} of {len(runs)}.")
    print(f"Every run: {every}\nPlot: {picture}")
