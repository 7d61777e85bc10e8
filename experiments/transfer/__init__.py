# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 002's tables 5 and 6 and figures 4 to 9: downloads with loss on Wi-Fi, plain and bicast."""

from __future__ import annotations

import argparse

from experiments.transfer.measure import measure_missing
from experiments.transfer.plan import ALL_SETTINGS, Plan, full, quick
from experiments.transfer.report import planned, present
from experiments.transfer.rows import DIRECTORY, PUBLISHED, Rows
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed


def run(args: argparse.Namespace) -> int:
    plan = full() if args.full else quick()
    rows = Rows(DIRECTORY / f"{plan.name}.csv", PUBLISHED if args.full else None)
    if args.setting is not None:
        plan = _only(plan, args.setting)
    if args.plan:
        print(planned(plan, rows.read() if args.full else []))
        return 0
    isolate.enter()
    if not args.full:
        rows.clear()
    try:
        measure_missing(plan, rows)
    finally:  # also after Ctrl-C: the results took hours
        present(plan, rows, args.json)
    return 0


def _only(plan: Plan, word: str) -> Plan:
    words = {setting.word: setting for setting in ALL_SETTINGS}
    if word not in words:
        raise ExperimentFailed(f"--setting {word}: expected one of {' '.join(words)}")
    chosen = plan.of(words[word])
    if not chosen.tasks:
        raise ExperimentFailed(f"--setting {word}: the plan has no such downloads; add --full")
    return chosen
