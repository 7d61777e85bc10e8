# SPDX-License-Identifier: Apache-2.0
"""Kill a transfer's active path: how long does its receiver get nothing?

Wi-Fi is active and dies, LTE is backup: 20 Mbit/s each, 20 and 50 ms round trip. With the controller killed before, the
agent stays armed until its lease ends (30 s).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from experiments.failover.measure import Run, carry_out
from experiments.failover.plan import FULL, QUICK, Plan
from experiments.failover.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def _run_tasks(plan: Plan, directory: Path) -> Iterator[Run]:
    return carry_out(plan.tasks, directory)


def _sentence(plan: Plan, one: Run) -> str:
    task = one.task
    told = f"{task.number}/{plan.rounds} {task.fault}, {task.direction}, {task.way.name}"
    return f"{told}: {one.pause_s * 1000:.0f} ms"


CAMPAIGN = Campaign("failover", _run_tasks, figures, "runs", HEADER, rows, draw, sentence=_sentence)
