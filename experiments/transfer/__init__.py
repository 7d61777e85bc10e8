"""Paper 002's tables 5 and 6 and figures 4 to 9: how long a download takes while Wi-Fi loses packets, plain and bicast.

./bicast experiment transfer            the corners of the paper's grid, 50 MB, minutes
./bicast experiment transfer --full     the whole grid, 500 MB, three rounds of hours; goes on where it was stopped
"""

from __future__ import annotations

import argparse
import json
import sys

from experiments.transfer import plot, report
from experiments.transfer.lab import carry_out
from experiments.transfer.plan import Plan, full, quick
from experiments.transfer.results import Results
from experiments.transfer.rows import Row, Rows
from lab.processes.controller import TREE
from lab.stage import isolate

DIRECTORY = TREE / "results" / "transfer"


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    plan = full() if args.full else quick()
    rows = Rows(DIRECTORY / f"{plan.name}.csv")
    if not args.full:
        rows.clear()
    try:
        measure(plan, rows)
    finally:  # after Ctrl-C too: hours were spent on what is there
        present(plan, rows, args.json)
    return 0


def measure(plan: Plan, rows: Rows) -> None:
    """Make the downloads that have no good row yet."""
    done = {row.task for row in rows.read() if row.good}
    missing = [task for task in plan.tasks if task not in done]
    if done:
        _tell(f"{len(done)} of {len(plan.tasks)} downloads are in {rows.file} already")
    for number, row in enumerate(carry_out(missing, plan.size_bytes), 1):
        rows.append(row)
        _tell(f"{number}/{len(missing)}  {_said(row)}")


def present(plan: Plan, rows: Rows, as_json: bool) -> None:
    results = Results(rows.read(), plan.size_bytes)
    plots = plot.draw(results, rows.file.parent, plan.name)
    if as_json:
        files = {"csv": str(rows.file), "plots": [str(plot) for plot in plots]}
        print(json.dumps(report.document(results) | files, indent=2))
        return
    print(report.text(results))
    print(f"\nEvery download: {rows.file}\nPlots: {', '.join(str(plot) for plot in plots) or 'none'}")


def _said(row: Row) -> str:
    task = row.task
    what = f"{task.setting}; Wi-Fi loses {task.up_percent} % up, {task.down_percent} % down; {task.how:6}"
    wrong = "" if row.good else f"  NOT COUNTED: sha256 {'good' if row.sha256_ok else 'WRONG'}, MPTCP {row.mptcp}"
    return f"{what}  {row.seconds:7.2f} s{wrong}"


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
