"""All that a plan asks for, one after the other: what is compared is measured in turns, in one laboratory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product
from pathlib import Path
from typing import TypeAlias

from experiments.laboratories.two_sites import NATTED, TWIN, Laboratory, laboratory
from experiments.once.black import Blackened, blackened
from experiments.once.bulk import Carried, carried
from experiments.once.deluge import Deluged, deluged
from experiments.once.dying import Died, died
from experiments.once.flows import DOWN, UP, Cut, Flowed, cut, flowed
from experiments.once.pinging import Pinged, pinged
from experiments.once.plan import JITTER, MODES, ONCE, SCENARIOS, SINGLE, TWICE, UPLOADS, Plan, Scenario
from experiments.once.streams import Asked, Uploaded, asked, uploaded
from experiments.once.tunnelled import ADDRESSES, Followed, Tunnelled, followed

ATTEMPTS = 4  # while the machine stalls
Run: TypeAlias = Pinged | Flowed | Cut | Asked | Uploaded | Deluged | Carried | Blackened | Died | Tunnelled | Followed


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    """Those in which the machine stalled are among them."""
    yield deluged(plan.deluge)
    with laboratory(TWIN, logs) as lab:
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
            for queue_ms in UPLOADS[mode]:
                yield uploaded(lab, mode, queue_ms, plan.upload_cuts)
                lab.recover()
            yield from _bulk(lab, mode, plan)
        for _, mode in product(range(plan.blacks), (ONCE, SINGLE)):
            lab.pin(mode)
            yield blackened(lab, mode)
            lab.recover()
        lab.pin(ONCE)
        for _ in range(plan.deaths):
            yield died(lab)
            lab.recover()
    with laboratory(NATTED, logs) as lab:
        yield from _through_tunnels(lab, plan)
    with laboratory(TWIN, logs, eliminated=False) as lab:
        lab.pin(ONCE)
        yield from _bulk(lab, TWICE, plan)
    with laboratory(TWIN, logs, slower=JITTER) as lab:
        yield from _pings(lab, plan, reordered=True)


def _through_tunnels(lab: Laboratory, plan: Plan) -> Iterator[Run]:
    largest_bytes = lab.largest_bytes()
    for _, mode in product(range(plan.tunnelled), (ONCE, SINGLE)):
        lab.pin(mode)
        yield from (Tunnelled(run, largest_bytes) for run in _bulk(lab, mode, plan))
    for mode in (ONCE, SINGLE):
        lab.pin(mode)
        for _, address in product(range(plan.tunnelled), ADDRESSES):
            yield followed(lab, mode, address)
            lab.recover()
    lab.pin(ONCE)
    for _, scenario in product(range(plan.tunnelled), SCENARIOS[:2]):
        yield from (Tunnelled(run, largest_bytes) for run in _counting(lab, plan, scenario))


def _bulk(lab: Laboratory, how: str, plan: Plan) -> Iterator[Carried]:
    yield from (carried(lab, how, way, plan.bulk_s) for way in (UP, DOWN))


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
