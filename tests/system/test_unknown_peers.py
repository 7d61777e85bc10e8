# SPDX-License-Identifier: Apache-2.0
"""An unknown peer is logged once and gets no flows, and others are not disturbed."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.processes.controller import OPENFLOW, OPENFLOW_ADDRESS, Controller, controlled
from lab.stage import ovs
from lab.stage.command import run
from lab.stage.stage import Stage, raised
from tests.system.conftest import PAPER
from tests.system.evidence import OpenFlowRecorder, assert_reaches, flows, groups, program, snooping
from topologies.paper import BRIDGE, SERVER, PaperTopo

SECOND, UNKNOWN, OLD = "br-second", "br-unknown", "br-old"
ADDRESS = (OPENFLOW_ADDRESS.host, OPENFLOW_ADDRESS.port)
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


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Controller]]:
    """Yield two gateways of one file: the paper's, and a second without ports."""
    file = tmp_path_factory.mktemp("two") / "two.yaml"
    first = PAPER.read_text()
    second = first.partition("sites:\n")[2].replace("home:", "second:", 1).replace("client:", "guest:")
    file.write_text(first + second.replace("0000000000000001", "0000000000000022").replace("br-home", SECOND))
    with (
        controlled(file, directory=file.parent.parent) as controller,
        raised(PaperTopo(shaped=False), controller=OPENFLOW) as net,
    ):
        controller.await_steady("home")
        with bridge(SECOND, 0x22):
            controller.await_steady("second")
            yield net, controller


@pytest.fixture(scope="module")
def snoops(net: tuple[Stage, Controller]) -> Iterator[tuple[OpenFlowRecorder, OpenFlowRecorder]]:
    with snooping(BRIDGE) as first, snooping(SECOND) as second:
        yield first, second


@contextmanager
def bridge(name: str, dpid: int, protocols: str = "OpenFlow13") -> Iterator[None]:
    words = ["add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev", "fail_mode=secure"]
    ovs.vsctl(*words, f"protocols={protocols}", f"other_config:datapath-id={dpid:016x}")
    ovs.vsctl("set-controller", name, OPENFLOW, "--", "set", "Controller", name, "max_backoff=1000")
    try:
        yield
    finally:
        ovs.vsctl("del-br", name)


def test_an_unknown_dpid_gets_no_flows_and_one_log_line(net: tuple[Stage, Controller]) -> None:
    controller = net[1]
    with bridge(UNKNOWN, 0xBAD):
        controller.await_word("no site in the configuration has the dpid 0000000000000bad")
        snoop = OpenFlowRecorder(UNKNOWN)
        for _ in range(2):
            snoop.wait("OFPT_FEATURES_REPLY", since=snoop.number())  # it tries again
        snoop.stop()
        assert snoop.modifications() == {}
        assert (flows(UNKNOWN), groups(UNKNOWN)) == ([], [])
    assert len([line for line in controller.log_text().splitlines() if "0000000000000bad" in line]) == 1


def test_another_openflow_version_gets_one_log_line(
    net: tuple[Stage, Controller], snoops: tuple[OpenFlowRecorder, OpenFlowRecorder]
) -> None:
    controller = net[1]
    before = [program(name) for name in (BRIDGE, SECOND)]
    heard = [snoop.number() for snoop in snoops]
    with bridge(OLD, 0x01D, protocols="OpenFlow10"):
        controller.await_word("offers OpenFlow versions 0x01; 1.3 (0x04) is needed")
        snoop = OpenFlowRecorder(OLD)
        for _ in range(2):
            snoop.wait("OFPT_ERROR", since=snoop.number())  # it tries again
        snoop.stop()
        assert snoop.kinds().keys() <= {"OFPT_HELLO", "OFPT_ERROR"}
        assert "actions=" not in run("ovs-ofctl", "-O", "OpenFlow10", "dump-flows", OLD).stdout
    assert len([line for line in controller.log_text().splitlines() if "offers OpenFlow versions" in line]) == 1
    for snoop in snoops:
        snoop.settled()
    assert [snoop.modifications(number) for snoop, number in zip(snoops, heard, strict=True)] == [{}, {}]
    assert [program(name) for name in (BRIDGE, SECOND)] == before


@pytest.mark.parametrize("what", GARBAGE)
def test_random_bytes_do_not_disturb_other_connections(
    net: tuple[Stage, Controller], snoops: tuple[OpenFlowRecorder, OpenFlowRecorder], what: str
) -> None:
    stage, controller = net
    before = [program(name) for name in (BRIDGE, SECOND)]
    heard = [snoop.number() for snoop in snoops]
    with ExitStack() as kept:
        kept.callback(controller.client.set_mode, "client", "bicast")
        thrown = [kept.enter_context(socket.create_connection(ADDRESS)) for _ in range(20)]
        for line in thrown:
            line.sendall(GARBAGE[what])
        assert_reaches(stage.machine("client"), "192.168.110.3", SERVER)
        assert controller.client.set_mode("client", "single")["messages"] == 2
        assert controller.client.set_mode("client", "bicast")["messages"] == 2
        for line in thrown[::2]:
            line.close()
        for snoop in snoops:
            snoop.settled()
    sent = [snoop.modifications(number) for snoop, number in zip(snoops, heard, strict=True)]
    assert sent == [{"OFPT_GROUP_MOD": 4}, {}]
    assert [program(name) for name in (BRIDGE, SECOND)] == before
    assert [one["state"] for one in controller.client.get("status")["gateways"]] == ["steady", "steady"]
