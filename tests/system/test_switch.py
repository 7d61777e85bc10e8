# SPDX-License-Identifier: Apache-2.0
"""The switch keeps its program beside foreign flows and unknown peers, and after changed ports and its own death."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from controller.switches.pacing import EVERY_S
from lab.processes.controller import OPENFLOW, OPENFLOW_ADDRESS
from lab.stage import ovs
from lab.stage.command import run
from tests.system.conftest import THE_SAME, GatewayLab, PeopleOverrides
from tests.system.evidence import (
    OpenFlowRecorder,
    assert_reaches,
    flows,
    gateway,
    groups,
    program,
    reaches,
    snooping,
    until,
)
from topologies.paper import BRIDGE, SERVER

HERE = "192.168.110.3"
RIVAL, UNKNOWN = "br-rival", "br-unknown"
FOREIGN_GROUP = "group_id=7,type=all,bucket=actions=output:1"
FOREIGN_FLOW = "table=9,priority=3,tcp,actions=group:7"
HELLO = bytes.fromhex("0400000800000001")
GARBAGE = {
    "nothing at all": b"",
    "words of another protocol": b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "noise": random.Random(13).randbytes(4096),
    "half a hello": HELLO[:5],
    "a message shorter than its own head": bytes.fromhex("0400000300000001"),
    "a hello, then a message that never ends": HELLO + bytes.fromhex("0406ffff00000002") + bytes(100),
    "a hello, then flows before features": HELLO + bytes.fromhex("0413001000000003") + bytes(8),
    "OpenFlow 1.0": bytes.fromhex("0100000800000001"),
}


def gateway_status(home: GatewayLab) -> dict[str, Any]:
    return gateway(home.controller.client.get("status"))


@pytest.fixture
def shared(paper: GatewayLab) -> Iterator[GatewayLab]:
    """Yield the home, and remove foreign flows and groups after the test."""
    yield paper
    ovs.ofctl("del-flows", BRIDGE, "table=9")
    ovs.ofctl("del-groups", BRIDGE, "group_id=7")


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


def test_a_port_that_returns_with_a_new_number_is_used(paper: GatewayLab) -> None:
    before = program(BRIDGE)
    for number in (9, 3):
        ovs.vsctl("del-port", BRIDGE, "gw-wifi", "--", "add-port", BRIDGE, "gw-wifi",
                  "--", "set", "Interface", "gw-wifi", f"ofport_request={number}")  # fmt: skip
        until(lambda: program(BRIDGE) == before, "the program names the same ports")
        assert_reaches(paper.net.machine("client"), HERE, SERVER)


@contextmanager
def bridge(name: str, dpid: int) -> Iterator[None]:
    words = ["add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev", "fail_mode=secure"]
    ovs.vsctl(*words, "protocols=OpenFlow13", f"other_config:datapath-id={dpid:016x}")
    ovs.vsctl("set-controller", name, OPENFLOW, "--", "set", "Controller", name, "max_backoff=1000")
    try:
        yield
    finally:
        ovs.vsctl("del-br", name)


def assert_gets_nothing(name: str) -> None:
    """Assert that the bridge gets no flow although it tries twice more."""
    snoop = OpenFlowRecorder(name)
    for _ in range(2):
        snoop.wait("OFPT_FEATURES_REPLY", since=snoop.number())
    snoop.stop()
    assert snoop.modifications() == {}
    assert (flows(name), groups(name)) == ([], [])


def test_an_unknown_dpid_gets_no_flows_and_one_log_line(paper: GatewayLab) -> None:
    with bridge(UNKNOWN, 0xBAD):
        paper.controller.await_word("no site in the configuration has the dpid 0000000000000bad")
        assert_gets_nothing(UNKNOWN)
    assert len([line for line in paper.controller.log_text().splitlines() if "0000000000000bad" in line]) == 1


def test_a_duplicate_dpid_is_named_and_gets_no_flows(paper: GatewayLab) -> None:
    served, before = gateway_status(paper)["peer"], program(BRIDGE)
    with bridge(RIVAL, 1):
        until(lambda: gateway_status(paper)["rival"] is not None, "the rival is shown")
        assert_gets_nothing(RIVAL)
        shown = run("./bicast", "status").stdout
    assert gateway_status(paper)["peer"] == served and gateway_status(paper)["state"] == "steady"
    assert program(BRIDGE) == before
    assert f"! home: two switches have dpid 0000000000000001: {served}, which is in use" in shown
    complaints = [line for line in paper.controller.log_text().splitlines() if "so has the switch at" in line]
    assert len(complaints) == 1 and served in complaints[0]


def test_random_bytes_do_not_disturb_the_served_switch(paper: GatewayLab) -> None:
    before, client = program(BRIDGE), paper.controller.client
    with snooping(BRIDGE) as snoop, ExitStack() as open_till_then:
        heard = snoop.number()
        for garbage in GARBAGE.values():
            for _ in range(5):
                address = (OPENFLOW_ADDRESS.host, OPENFLOW_ADDRESS.port)
                open_till_then.enter_context(socket.create_connection(address)).sendall(garbage)
        assert_reaches(paper.net.machine("client"), HERE, SERVER)
        assert client.set_mode("client", "single")["messages"] == 2
        assert client.set_mode("client", "bicast")["messages"] == 2
        snoop.settled()
        assert snoop.modifications(heard) == {"OFPT_GROUP_MOD": 4}
    assert program(BRIDGE) == before and gateway_status(paper)["state"] == "steady"


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


def kill_switch() -> None:
    (pid,) = (each.pid for each in ovs.needed() if each.name == "ovs-vswitchd")
    death = os.pidfd_open(pid)
    signal.pidfd_send_signal(death, signal.SIGKILL)
    select.select([death], [], [])
    os.close(death)


def test_a_restarted_switch_gets_the_same_program(paper: GatewayLab, wish: PeopleOverrides) -> None:
    client = paper.net.machine("client")
    wish.mode("single")
    wish.active("lte")
    until(lambda: reaches(client, HERE, SERVER), "packets pass before")
    before, process = program(BRIDGE), paper.controller.process.pid
    kill_switch()
    paper.controller.await_state("absent")
    assert not reaches(client, HERE, SERVER)
    run("ovs-vswitchd", "--pidfile", "--no-chdir", "--detach", "--log-file", "-vconsole:off")
    paper.controller.await_steady()
    paper.await_in_force()
    assert program(BRIDGE) == before
    assert_reaches(client, HERE, SERVER)
    (terminal,) = paper.controller.client.get("terminals")
    assert (terminal["mode"], terminal["active_uplink"]) == ("single", "lte")
    assert (paper.controller.process.pid, paper.controller.process.poll()) == (process, None)
