# SPDX-License-Identifier: Apache-2.0
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
from collections.abc import Iterator
from pathlib import Path

from experiments.failover.measure import Run, carry_out
from experiments.failover.plan import FULL, QUICK, Plan
from experiments.failover.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def _carried_out(plan: Plan, directory: Path) -> Iterator[Run]:
    return carry_out(plan.tasks, directory)


def _sentence(plan: Plan, one: Run) -> str:
    task = one.task
    told = f"{task.number}/{plan.rounds} {task.fault}, {task.direction}, {task.way.name}"
    return f"{told}: {one.pause_s * 1000:.0f} ms"


CAMPAIGN = Campaign("failover", _carried_out, figures, "runs", HEADER, rows, draw, sentence=_sentence)
