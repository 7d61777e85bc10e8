# SPDX-License-Identifier: Apache-2.0
"""With two connections of one dpid, the served bridge keeps its controller, and a returning one is served."""

from __future__ import annotations

from typing import Any

from lab.stage.command import run
from tests.system.conftest import THE_SAME, GatewayLab
from tests.system.evidence import OpenFlowRecorder, flows, gateway, groups, program, until
from tests.system.test_unknown_peers import bridge
from topologies.paper import BRIDGE

RIVAL = "br-rival"


def gateway_status(home: GatewayLab) -> dict[str, Any]:
    return gateway(home.controller.client.get("status"))


def test_a_duplicate_dpid_is_named_and_gets_no_flows(paper: GatewayLab) -> None:
    served, before = gateway_status(paper)["peer"], program(BRIDGE)
    with bridge(RIVAL, 1):
        until(lambda: gateway_status(paper)["rival"] is not None, "the rival is shown")
        snoop = OpenFlowRecorder(RIVAL)
        for _ in range(2):
            snoop.wait("OFPT_FEATURES_REPLY", since=snoop.number())  # it tries again
        snoop.stop()
        assert snoop.modifications() == {}
        assert (flows(RIVAL), groups(RIVAL)) == ([], [])
        shown = run("./bicast", "status").stdout
    assert gateway_status(paper)["peer"] == served and gateway_status(paper)["state"] == "steady"
    assert program(BRIDGE) == before
    assert f"! home: two switches have dpid 0000000000000001: {served}, which is in use" in shown
    complaints = [line for line in paper.controller.log_text().splitlines() if "so has the switch at" in line]
    assert len(complaints) == 1 and served in complaints[0]


def test_a_returning_switch_replaces_its_dead_connection(paper: GatewayLab) -> None:
    old = gateway_status(paper)["peer"]
    port = old.rpartition(":")[2]
    run("nft", "add table inet dead; add chain inet dead in { type filter hook input priority 0; }")
    run("nft", f"add rule inet dead in tcp sport {port} drop; add rule inet dead in tcp dport {port} drop")
    try:
        (home,) = paper.net.gateways
        home.connect(THE_SAME)
        until(lambda: gateway_status(paper)["peer"] not in (old, None), "the new connection is served")
        until(lambda: gateway_status(paper)["state"] == "steady", "it is steady")
        assert gateway_status(paper)["rival"] is None
    finally:
        run("nft", "delete", "table", "inet", "dead")
        paper.reconnect()
