# SPDX-License-Identifier: Apache-2.0
"""The far end is a site, too: it copies packets to a terminal like home copies those from it, class by class."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lab.stage.command import run
from lab.stage.nodes import Machine
from lab.traffic.web import download, web_server
from tests.system.conftest import GatewayLab
from tests.system.evidence import arrivals, until
from tests.system.test_reload import IN_FORCE, reload
from topologies.paper import BRIDGE as HOME
from topologies.paper import SERVER
from topologies.twin import FAR

CLIENT = "192.168.110.3"
PINGS = 5
BYTES = 2_000_000
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


def segments(twin: GatewayLab, mode: str) -> tuple[int, int]:
    """Download a file and return the packets that reached the server, and the client over Wi-Fi."""
    twin.controller.client.set_mode("client", mode)
    twin.await_in_force()
    server, client = twin.net.machine("server"), twin.net.machine("client")
    with web_server(server, SERVER) as web, arrivals(server, "lan") as up, arrivals(client, "wifi") as down:
        file = web.offer("file", BYTES)
        assert download(client, file.url).sha256 == file.sha256
        return up.since()["lan", "tcp"], down.since()["wifi", "tcp"]


def test_bicast_doubles_segments_in_both_directions(twin: GatewayLab) -> None:
    single_up, single_down = segments(twin, "single")
    both_up, both_down = segments(twin, "bicast")
    assert both_up > 1.5 * single_up
    assert both_down > 1.5 * single_down


def test_a_switch_moves_both_directions(twin: GatewayLab) -> None:
    client = twin.controller.client
    client.set_mode("client", "single")
    for uplink, other in (("lte", "wifi"), ("wifi", "lte")):
        client.set_active("client", uplink)
        twin.await_in_force()
        before = {name: carried(name) for name in (uplink, other)}
        twin.net.machine("client").run("ping", "-c", str(PINGS), "-i", "0.05", "-I", CLIENT, SERVER)
        until(
            lambda uplink=uplink, before=before: all(  # type: ignore[misc]
                now - then >= PINGS for now, then in zip(carried(uplink), before[uplink], strict=True)
            ),
            f"{uplink} has carried all",
        )
        assert all(now - then < PINGS for now, then in zip(carried(other), before[other], strict=True))


def carried(uplink: str) -> tuple[int, int]:
    """Return the packets that arrived over an uplink at home and at the far site, with some neighbour requests."""
    return came(HOME, f"gw-{uplink}"), came(FAR, f"fe-{uplink}")


def came(bridge: str, port: str) -> int:
    told = run("ovs-ofctl", "-O", "OpenFlow13", "dump-ports", bridge, port).stdout
    (packets,) = re.findall(r"rx pkts=(\d+)", told)
    return int(packets)


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
    reload(twin, IN_FORCE)
    twin.await_in_force()
    yield twin
    file.write_text(before)
    reload(twin, IN_FORCE)


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
