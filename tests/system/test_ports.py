"""Ports come, go and go down, and the groups follow."""

from __future__ import annotations

import time

from tests.system.conftest import Home
from tests.system.evidence import Snoop, gateway, groups, pings, program, reaches, until
from topologies import ovs
from topologies.command import run
from topologies.paper import BRIDGE, SERVER

GENEROUS_S = 1.0  # promised are 100 ms; bench measures it


def copies_to(port: str) -> list[str]:
    return [group for group in groups(BRIDGE) if "type=all" in group and f'output:"{port}"' in group]


def test_a_port_that_goes_down_leaves_its_buckets_and_returns_to_them(paper: Home, snoop: Snoop) -> None:
    assert len(copies_to("gw-lte")) == 2
    heard, began = snoop.number(), time.time()
    run("ip", "link", "set", "gw-lte", "down")
    snoop.wait("OFPT_PORT_STATUS", "LINK_DOWN", since=heard)
    gone = snoop.wait("OFPT_BARRIER_REPLY", since=heard)
    assert gone.at - began < GENEROUS_S
    assert copies_to("gw-lte") == []
    assert snoop.modifications(heard) == {"OFPT_GROUP_MOD": 2}
    assert reaches(paper.net.machine("client"), "192.168.110.3", SERVER)
    heard = snoop.number()
    run("ip", "link", "set", "gw-lte", "up")
    snoop.wait("OFPT_BARRIER_REPLY", since=heard)
    assert len(copies_to("gw-lte")) == 2
    assert snoop.modifications(heard) == {"OFPT_GROUP_MOD": 2}


def test_a_port_that_appears_later_is_used(paper: Home) -> None:
    before = program(BRIDGE)
    ovs.vsctl("del-port", BRIDGE, "gw-lte")
    client = paper.controller.client

    def uplink() -> object:
        return gateway(client.get("status"))["uplinks"][1]["number"]  # type: ignore[index]

    until(lambda: uplink() is None and not copies_to("gw-lte"), "the port is gone")
    assert "3 received" in pings(paper.net.machine("client"), "192.168.110.3", SERVER)
    ovs.vsctl("add-port", BRIDGE, "gw-lte", "--", "set", "Interface", "gw-lte", "ofport_request=4")
    until(lambda: program(BRIDGE) == before, "the program is as it was")
    assert uplink() == 4


def test_a_port_that_returns_under_another_number_is_used_under_it(paper: Home) -> None:
    before = program(BRIDGE)
    for number in (9, 4):
        ovs.vsctl("del-port", BRIDGE, "gw-wifi", "--", "add-port", BRIDGE, "gw-wifi",
                  "--", "set", "Interface", "gw-wifi", f"ofport_request={number}")  # fmt: skip
        until(lambda: program(BRIDGE) == before, "the program names the same ports")
        assert reaches(paper.net.machine("client"), "192.168.110.3", SERVER)
