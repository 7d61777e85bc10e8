# SPDX-License-Identifier: Apache-2.0
"""The groups follow ports that appear, vanish and go down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.stage import ovs
from lab.stage.command import run
from tests.system.conftest import GatewayLab
from tests.system.evidence import OpenFlowRecorder, assert_reaches, gateway, groups, pings, program, until
from topologies.paper import BRIDGE, SERVER


@pytest.fixture
def ports(paper: GatewayLab) -> Iterator[GatewayLab]:
    """Yield the home, and restore the numbers and states of uplink ports after the test."""
    yield paper
    for name, number in (("gw-wifi", 3), ("gw-lte", 4)):
        if ovs.vsctl("--if-exists", "get", "Interface", name, "ofport").strip() != str(number):
            ovs.vsctl("--if-exists", "del-port", BRIDGE, name)
            add_port(name, number)
        run("ip", "link", "set", name, "up")
    paper.controller.await_steady()


def add_port(name: str, number: int) -> None:
    ovs.vsctl("add-port", BRIDGE, name, "--", "set", "Interface", name, f"ofport_request={number}")


def copies_to(port: str) -> list[str]:
    return [group for group in groups(BRIDGE) if "type=all" in group and f'output:"{port}"' in group]


def test_a_down_port_leaves_its_buckets_until_it_is_up(ports: GatewayLab, snoop: OpenFlowRecorder) -> None:
    assert len(copies_to("gw-lte")) == 2
    heard = snoop.number()
    run("ip", "link", "set", "gw-lte", "down")
    snoop.wait("OFPT_PORT_STATUS", "LINK_DOWN", since=heard)
    until(lambda: not copies_to("gw-lte"), "no copy goes to gw-lte")
    snoop.settled()
    assert snoop.modifications(heard) == {"OFPT_GROUP_MOD": 2}
    assert_reaches(ports.net.machine("client"), "192.168.110.3", SERVER)
    heard = snoop.number()
    run("ip", "link", "set", "gw-lte", "up")
    until(lambda: len(copies_to("gw-lte")) == 2, "copies go to gw-lte")
    snoop.settled()
    assert snoop.modifications(heard) == {"OFPT_GROUP_MOD": 2}


def test_a_port_that_appears_later_is_used(ports: GatewayLab) -> None:
    before = program(BRIDGE)
    ovs.vsctl("del-port", BRIDGE, "gw-lte")
    client = ports.controller.client

    def uplink() -> object:
        return gateway(client.get("status"))["uplinks"][1]["number"]  # type: ignore[index]

    until(lambda: uplink() is None and not copies_to("gw-lte"), "the port is gone")
    assert ", 0% packet loss" in pings(ports.net.machine("client"), "192.168.110.3", SERVER)
    add_port("gw-lte", 4)
    until(lambda: program(BRIDGE) == before, "the program is as it was")
    assert uplink() == 4


def test_a_port_that_returns_with_a_new_number_is_used(ports: GatewayLab) -> None:
    before = program(BRIDGE)
    for number in (9, 4):
        ovs.vsctl("del-port", BRIDGE, "gw-wifi", "--", "add-port", BRIDGE, "gw-wifi",
                  "--", "set", "Interface", "gw-wifi", f"ofport_request={number}")  # fmt: skip
        until(lambda: program(BRIDGE) == before, "the program names the same ports")
        assert_reaches(ports.net.machine("client"), "192.168.110.3", SERVER)
