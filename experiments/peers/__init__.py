# SPDX-License-Identifier: Apache-2.0
"""Compare tunnels over two paths with those of other projects, in turns on one machine.

Two paths lead through NATs: Wi-Fi with 100 Mbit/s, LTE with 50 Mbit/s. Faults hit the path that a variant uses.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict

from experiments.peers.measure import Run, carry_out
from experiments.peers.plan import FULL, QUICK
from experiments.peers.report import comparison, keep_runs, promises, table
from lab.results import DOCS, IN_TREE, RESULTS
from lab.results import figures as figures_of
from lab.stage import isolate

DIRECTORY = RESULTS / "peers"
IDLE_LOAD = 0.5


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    plan = FULL if args.full else QUICK
    if (load := os.getloadavg()[0]) > IDLE_LOAD:
        print(f"peers: the machine is busy (load {load:.1f}): expect longer gaps and lower rates", file=sys.stderr)
    runs: list[Run] = []
    for one in carry_out(plan, DIRECTORY):
        print(one, file=sys.stderr, flush=True)
        runs.append(one)
        keep_runs(runs, DIRECTORY / f"{plan.name}-runs.csv")
    promised = list(promises(runs))
    found = [*comparison(runs), *promised]
    figures_of.keep(found, DIRECTORY, plan.name)
    if args.full and IN_TREE:
        shutil.copy(DIRECTORY / f"{plan.name}.csv", DOCS / "results" / "peers.csv")
    if args.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        print(f"{table(runs)}\n\n{figures_of.table(promised)}\n\nAll figures: {DIRECTORY / plan.name}.csv")
    return int(any(each.met is False for each in promised))
