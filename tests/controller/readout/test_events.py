# SPDX-License-Identifier: Apache-2.0
"""Two snapshots become the sentences that a person would use for what happened between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.model.uplink import Period
from controller.policy.paths.health import UplinkHealth
from controller.readout.events import Event, events
from controller.readout.snapshot import AgentState, BudgetView, HealthView, Snapshot, TerminalView, TunnelView
from controller.switches.switch import GatewayState
from tests.controller.edges.http.fake_core import COURSE, HOME, METERED, RELAY, RELAYED, START, TOKYO

SWITCHED, _, COPIED = COURSE.decisions


def with_terminals(*terminals: TerminalView) -> Snapshot:
    return replace(START, terminals=terminals)


def device(name: str, health: UplinkHealth = UplinkHealth.GOOD, reason: str = "it answers") -> TerminalView:
    return replace(START.terminals[0], name=name, paths=(HealthView("wifi", health, reason, 0.0, ()),))


def sentences(before: Snapshot, after: Snapshot) -> list[str]:
    return [each.sentence for each in events(before, after)]


def test_nothing_happened_between_equal_snapshots() -> None:
    assert sentences(RELAYED, RELAYED) == []


def test_dead_uplink_of_many_devices_is_one_event_about_each() -> None:
    names = [f"phone-{number}" for number in range(250)]
    before = with_terminals(*map(device, names))
    after = with_terminals(*(device(name, UplinkHealth.DEAD, "no answer for 180 ms") for name in names))
    assert list(events(before, after)) == [
        Event("wifi is dead for 250 devices: no answer for 180 ms", "home", ("wifi",), tuple(names))
    ]


def test_two_devices_are_named() -> None:
    before = with_terminals(device("phone"), device("tablet"))
    after = with_terminals(*(device(name, UplinkHealth.LOSSY, "8% lost") for name in ("phone", "tablet")))
    assert sentences(before, after) == ["wifi is lossy for phone, tablet: 8% lost"]


def test_first_report_of_a_good_path_is_no_event() -> None:
    fresh = with_terminals(device("phone", UplinkHealth.UNKNOWN))
    assert sentences(fresh, with_terminals(device("phone"))) == []
    assert sentences(with_terminals(device("phone")), fresh) == []
    dead = with_terminals(device("phone", UplinkHealth.DEAD))
    assert sentences(dead, fresh) == ["wifi is no longer dead for phone: it answers"]
    assert sentences(START, with_terminals(device("stranger", UplinkHealth.DEAD))) == []


def test_each_decision_is_told_once_with_its_reason() -> None:
    before = with_terminals(replace(device("phone"), last_decision=COPIED))
    after = with_terminals(replace(device("phone"), last_decision=SWITCHED))
    assert list(events(before, after)) == [
        Event(f"lte took over from wifi for phone (policies): {SWITCHED.reason}", "home", ("wifi", "lte"), ("phone",))
    ]
    assert sentences(after, after) == []
    assert sentences(with_terminals(device("phone")), before) == [f"copies begin for phone: {COPIED.reason}"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": GatewayState.ABSENT}, "gateway home is absent; its installed flows go on"),
        ({"uplinks": (replace(HOME.uplinks[0], up=False),)}, "port gw-wifi of wifi is down"),
    ],
)
def test_gateways_and_ports_come_and_go(change: dict[str, object], sentence: str) -> None:
    changed = replace(START, gateways=(replace(HOME, **change),))  # type: ignore[arg-type]
    assert sentences(START, changed) == [sentence]
    assert sentences(changed, changed) == []


def test_spent_budget_and_dead_tunnel_say_why() -> None:
    lte = replace(
        METERED.uplinks[1],
        budget=BudgetView(0, 1000, Period.DAY, 0.0, None, None, None),
        tunnel=TunnelView(True, None, None),
    )
    spent = replace(METERED.uplinks[1], tunnel=TunnelView(False, "no handshake", None))
    before, after = (replace(START, gateways=(replace(HOME, uplinks=(each,)),)) for each in (lte, spent))
    assert sentences(before, after) == [
        "the tunnel over lte is down: no handshake",
        "copies over lte stop: used up until 00:00",
    ]


def test_a_budget_nearly_used_up_is_told_once() -> None:
    fresh = BudgetView(0, 1000, Period.MONTH, 0.0, None, None, None)
    told = replace(fresh, nearly="nearly used up until 2026-12-01: 0.9 of 1.0 MB for this month")
    before, after = (
        replace(START, gateways=(replace(HOME, uplinks=(replace(METERED.uplinks[1], budget=each),)),))
        for each in (fresh, told)
    )
    assert sentences(before, after) == [f"the budget of lte is {told.nearly}"]
    assert sentences(after, after) == []


def test_agents_relays_and_configuration() -> None:
    silent = replace(RELAY, state=AgentState.SILENT)
    down = replace(TOKYO, why_not="its agent is silent")
    after = replace(
        RELAYED, agents=(silent, *START.agents[1:]), relays=(down,), config_failures=1, config_error="line 3"
    )
    assert sentences(RELAYED, after) == [
        "gateway.yaml was refused, the last valid one stays: line 3",
        "agent relay-1 (relay) is silent",
        "relay tokyo is down: its agent is silent",
    ]
