# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 002's tables 5 and 6 and figures 4 to 9: downloads with loss on Wi-Fi, plain and bicast."""

from __future__ import annotations

import argparse

from experiments.transfer.measure import DIRECTORY, Rows, measure_missing
from experiments.transfer.plan import full, quick
from experiments.transfer.report import present
from lab.stage import isolate


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    plan = full() if args.full else quick()
    rows = Rows(DIRECTORY / f"{plan.name}.csv")
    if not args.full:
        rows.clear()
    try:
        measure_missing(plan, rows)
    finally:  # also after Ctrl-C: the results took hours
        present(plan, rows, args.json)
    return 0
