# SPDX-License-Identifier: Apache-2.0
"""On a shared bridge, foreign flows stay, ours are restored, and refusals are named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.switches.pacing import EVERY_S
from lab.stage import ovs
from lab.stage.command import run
from tests.system.conftest import GatewayLab
from tests.system.evidence import flows, gateway, groups, program, until
from topologies.paper import BRIDGE

FOREIGN_GROUP = "group_id=7,type=all,bucket=actions=output:1"
FOREIGN_FLOW = "table=9,priority=3,tcp,actions=group:7"


@pytest.fixture
def shared(paper: GatewayLab) -> Iterator[GatewayLab]:
    """Yield the home, and remove foreign flows and groups after the test."""
    yield paper
    ovs.vsctl("clear", "Bridge", BRIDGE, "flow_tables")
    for foreign in ("table=9", "cookie=0x99/-1"):
        ovs.ofctl("del-flows", BRIDGE, foreign)
    ovs.ofctl("del-groups", BRIDGE, "group_id=7")
    paper.reconnect()
    until(
        lambda: gateway_status(paper)["state"] == "steady" and not gateway_status(paper)["conflicts"],
        "all is ours and well",
    )


def test_foreign_flows_stay_and_our_changed_flows_are_restored(shared: GatewayLab) -> None:
    before = program(BRIDGE)
    ovs.ofctl("add-group", BRIDGE, FOREIGN_GROUP)
    ovs.ofctl("add-flow", BRIDGE, FOREIGN_FLOW)
    foreign = {line for line in (*flows(BRIDGE), *groups(BRIDGE)) if line not in (*before[0], *before[1])}
    assert len(foreign) == 2
    some_group = before[1][0].partition(",")[0]
    ovs.ofctl("del-groups", BRIDGE, some_group)  # OVS also deletes the flows that lead to it
    ovs.ofctl("del-flows", BRIDGE, "table=0,arp")
    ovs.ofctl("mod-flows", BRIDGE, "--strict", "table=1,priority=10,actions=drop")
    ovs.ofctl("add-flow", BRIDGE, "cookie=0x6269636173740000,table=3,priority=1,udp,actions=drop")
    lost = program(BRIDGE)
    assert lost != before
    until(lambda: set(program(BRIDGE)[0]) - foreign == set(before[0]), "our flows are as before")
    now = program(BRIDGE)
    assert set(now[1]) - foreign == set(before[1])
    assert foreign <= {*now[0], *now[1]}


@pytest.mark.timed
def test_deleted_flows_return_before_the_next_reading(shared: GatewayLab) -> None:
    before = program(BRIDGE)
    for deleted in (("del-groups", BRIDGE), ("del-flows", BRIDGE)):
        ovs.ofctl(*deleted)
        until(lambda: program(BRIDGE) == before, "it is as before", 0.5 * EVERY_S)


def gateway_status(home: GatewayLab) -> dict[str, Any]:
    return gateway(home.controller.client.get("status"))


def test_a_conflicting_foreign_flow_is_kept_and_shown(shared: GatewayLab) -> None:
    place = "in_port=gw-c1,dl_src=08:00:27:86:0d:bc,dl_dst=08:00:27:f9:49:62"
    ours = f"table=0,priority=10,ip,{place},nw_src=192.168.110.3"
    ovs.ofctl("--names", "add-flow", BRIDGE, f"cookie=0x99,{ours},actions=drop")  # this replaces ours
    shared.reconnect()
    until(lambda: bool(gateway_status(shared)["conflicts"]), "the conflict is shown")
    (conflict,) = gateway_status(shared)["conflicts"]
    assert conflict.startswith("table=0,priority=10,")
    assert 'in_port="gw-c1",ip_src=192.168.110.3' in conflict
    assert any("cookie=0x99" in flow for flow in flows(BRIDGE))
    shown = run("./bicast", "status").stdout
    assert "! home: a foreign flow takes the place of a flow of this controller" in shown
    ovs.ofctl("del-flows", BRIDGE, "cookie=0x99/-1")
    shared.reconnect()
    until(
        lambda: not gateway_status(shared)["conflicts"] and gateway_status(shared)["state"] == "steady", "all is well"
    )


def test_a_refused_flow_is_named_and_retried(shared: GatewayLab) -> None:
    before = program(BRIDGE)
    small = ["--id=@small", "create", "Flow_Table", "flow_limit=1", "overflow_policy=refuse"]
    ovs.vsctl(*small, "--", "set", "Bridge", BRIDGE, "flow_tables:2=@small")
    ovs.ofctl("del-flows", BRIDGE, "table=2")
    until(lambda: gateway_status(shared)["state"] == "refused", "the refusal is shown")
    shown = gateway_status(shared)
    assert "table=2" in shown["last_error"]
    assert "192.168." in shown["last_error"]
    assert "table full" in shown["last_error"]
    assert shown["refusals"] > 0
    assert f"! home: {shown['last_error']}" in run("./bicast", "status").stdout
    ovs.vsctl("clear", "Bridge", BRIDGE, "flow_tables")
    shared.reconnect()
    until(
        lambda: gateway_status(shared)["state"] == "steady" and gateway_status(shared)["last_error"] is None,
        "it is mended",
    )
    assert program(BRIDGE) == before
