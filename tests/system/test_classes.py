# SPDX-License-Identifier: Apache-2.0
"""Two classes of UDP on real switches: one uses both uplinks in both directions, the other a single one."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from lab.stage.command import run
from lab.stage.nodes import Machine
from tests.system.conftest import GatewayLab
from tests.system.evidence import snooping, until
from tests.system.test_twin import CLIENT, carried
from topologies.paper import BRIDGE as HOME
from topologies.paper import SERVER
from topologies.twin import FAR

CALL, BACKUP = 10007, 8730
DATAGRAMS = 50
SEND = """
import socket, sys
own, its, other, others = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2)
    mouth.bind((own, its))
    for number in range(int(sys.argv[5])):
        mouth.sendto(number.to_bytes(4), (other, others))
"""
CLASSES = """\
    classes:
      voip: {protocols: [udp], ports: [5060, 10000-10015], dscp: [46], addresses: [192.168.0.0/24]}
      backup-job: {protocols: [udp], ports: [8730]}
"""


@pytest.fixture(scope="module")
def classed(twin: GatewayLab) -> Iterator[GatewayLab]:
    file = twin.controller.file
    before = file.read_text()
    with_classes = before.replace("    uplinks:\n", f"{CLASSES}    uplinks:\n", 1)
    file.write_text(
        with_classes.replace(
            "        mode: bicast\n", "        mode: bicast\n        modes: {voip: bicast, backup-job: single}\n"
        )
    )
    reload(twin)
    yield twin
    file.write_text(before)
    reload(twin)


def reload(home: GatewayLab) -> None:
    home.controller.process.send_signal(signal.SIGHUP)
    home.controller.await_word("is in force")
    home.await_in_force()


def send(machine: Machine, own: tuple[str, int], other: tuple[str, int]) -> None:
    machine.run("python3", "-c", SEND, own[0], str(own[1]), other[0], str(other[1]), str(DATAGRAMS))


def assert_carried_by(home: GatewayLab, port: int, *expected: str) -> None:
    """Send datagrams to the server's port and from it. Each uplink must carry all, or almost none."""
    client, server = home.net.machine("client"), home.net.machine("server")
    for direction, go in enumerate(
        (
            lambda: send(server, (SERVER, port), (CLIENT, 40000)),
            lambda: send(client, (CLIENT, 40000), (SERVER, port)),
        )
    ):
        before = {name: carried(name)[direction] for name in ("wifi", "lte")}
        go()

        def came(name: str, direction: int = direction, before: dict[str, int] = before) -> int:
            return carried(name)[direction] - before[name]

        for name in expected:
            until(lambda name=name: came(name) >= DATAGRAMS, f"{name} has carried all")  # type: ignore[misc]
        for name in before.keys() - set(expected):
            assert came(name) < DATAGRAMS / 2


def test_a_bicast_class_uses_both_uplinks_a_single_class_one(classed: GatewayLab) -> None:
    assert_carried_by(classed, CALL, "wifi", "lte")
    assert_carried_by(classed, BACKUP, "wifi")
    assert_carried_by(classed, CALL + 100, "wifi")


def test_a_class_override_changes_only_groups_at_both_sites(classed: GatewayLab) -> None:
    with snooping(HOME) as at_home, snooping(FAR) as at_far:
        heard = at_home.number(), at_far.number()
        assert run("./bicast", "mode", "client/voip", "single").stdout == "client/voip is in mode single\n"
        classed.await_in_force()
        for snoop, since in zip((at_home, at_far), heard, strict=True):
            snoop.settled()
            assert snoop.modifications(since).keys() == {"OFPT_GROUP_MOD"}
    assert " bicast, voip: single*, backup-job: single " in run("./bicast", "status").stdout
    assert_carried_by(classed, CALL, "wifi")
    said = run("./bicast", "mode", "all/voip", "file").stdout
    assert said == "client/voip follows gateway.yaml: mode bicast\n"
    classed.await_in_force()
    assert_carried_by(classed, CALL, "wifi", "lte")
