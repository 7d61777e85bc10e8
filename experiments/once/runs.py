"""All that a plan asks for, one after the other: what is compared is measured in turns, in one laboratory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product
from pathlib import Path
from typing import TypeAlias

from experiments.once.flows import Cut, Flowed, cut, flowed
from experiments.once.lab import Laboratory, laboratory
from experiments.once.pinging import Pinged, pinged
from experiments.once.plan import JITTER, MODES, ONCE, SCENARIOS, SINGLE, Plan, Scenario
from experiments.once.streams import Asked, Uploaded, asked, uploaded

ATTEMPTS = 4  # while the machine stalls
Run: TypeAlias = Pinged | Flowed | Cut | Asked | Uploaded


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    """Those in which the machine stalled are among them."""
    with laboratory(logs) as lab:
        yield from _pings(lab, plan, reordered=False)
        for mode, those in groupby(plan.flows, key=lambda each: each[0]):
            lab.pin(mode)
            yield from (flowed(lab, mode, losses, plan.flow_s) for _, losses in those)
        for _, mode in product(range(plan.rounds), MODES):
            lab.pin(mode)
            yield asked(lab, mode, plan.ask_s)
        for mode in (ONCE, SINGLE):
            lab.pin(mode)
            yield cut(lab, mode, plan.cuts)
            lab.recover()
            yield uploaded(lab, mode, plan.cuts)
            lab.recover()
    with laboratory(logs, **JITTER) as lab:
        yield from _pings(lab, plan, reordered=True)


def _pings(lab: Laboratory, plan: Plan, reordered: bool) -> Iterator[Pinged]:
    lab.pin(ONCE)
    those = [scenario for scenario in SCENARIOS if scenario.reordered is reordered]
    for _, scenario in product(range(plan.rounds), those):
        yield from _counting(lab, plan, scenario)


def _counting(lab: Laboratory, plan: Plan, scenario: Scenario) -> Iterator[Pinged]:
    """Again, while it does not count."""
    for _ in range(ATTEMPTS):
        run = pinged(lab, scenario, plan.pings)
        yield run
        if scenario.after_percent == 100:
            lab.recover()
        if not run.stalled:
            break
