# SPDX-License-Identifier: Apache-2.0
"""Measure the processor time of caps for the largest site."""

from __future__ import annotations

import time

import yaml

from controller.edges.config import load
from controller.features.caps.access_point import AccessPointState
from controller.model.config import Terminal
from controller.policy.caps.flows import TcpFlow
from controller.policy.caps.sharers import PERIOD_S
from lab.processes.gateways import many
from lab.results.figures import Figure, at_most, middle

TERMINALS, CONNECTIONS = 250, 4
SECONDS = 5
PROMISED_PERCENT = 25.0
RTT_US, SENT_BPS = 16_000, 200_000


def deciding_cost() -> Figure:
    place = _access_point()
    _spent_s(place, 0)  # traffic is known from the second report on
    spent = [100 * _spent_s(place, second) for second in range(1, 1 + SECONDS)]
    assert place.ruling.active == TERMINALS
    what = (
        f"{TERMINALS} terminals of {CONNECTIONS} connections that report each {PERIOD_S * 1000:g} ms: deciding for them"
    )
    return middle(what, spent, "% of a processor", at_most(PROMISED_PERCENT))


def _access_point() -> AccessPointState:
    site = many(TERMINALS, dual_stack=False)
    site["access_points"] = {"air": {"bandwidth_bps": "20000000", "rule": "ideal"}}
    for terminal in site["terminals"].values():
        terminal["access_point"] = "air"
    (read,) = load.parse(yaml.safe_dump({"sites": {"big": site}})).sites
    return AccessPointState(read, read.access_points[0])


def _spent_s(access_point: AccessPointState, second: int) -> float:
    spent_s = 0.0
    for now in (second + report * PERIOD_S for report in range(round(1 / PERIOD_S))):
        reports = [(terminal, _flows(terminal, now)) for terminal in access_point.terminals.values()]
        began = time.process_time()
        for terminal, flows in reports:
            access_point.on_report(terminal, flows, terminal.name, PERIOD_S, now)
        access_point.decide(now, lambda *_: None)
        spent_s += time.process_time() - began
    return spent_s


def _flows(terminal: Terminal, now: float) -> list[TcpFlow]:
    own, sent = str(terminal.addresses[0].address), int(now * SENT_BPS / 8)
    ends = ((own, 40_000 + number, f"203.0.113.{number}", 443) for number in range(CONNECTIONS))
    return [TcpFlow(key, 0, sent, 2 * RTT_US, RTT_US, waits=True) for key in ends]
