# SPDX-License-Identifier: Apache-2.0
"""A home without a far site leaves by its host's own uplinks, as their providers made them, and leaves a dead one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage.command import run
from lab.stage.nodes import Machine
from lab.stage.stage import raised
from tests.system.conftest import GatewayLab
from tests.system.evidence import pings, reaches, until
from tests.system.test_twin import came
from topologies.alone import PROVIDERS, WEB, AloneTopo
from topologies.paper import BRIDGE

FILE = TREE / "topologies" / "alone.yaml"
BICAST = str(TREE / "bicast")
TABLET = "192.168.8.57"
PINGS = 50


@pytest.fixture(scope="module")
def home(place: Path) -> Iterator[GatewayLab]:
    with (
        controlled(FILE, directory=place) as controller,
        raised(AloneTopo(), controller=OPENFLOW) as net,
        (place / "bridge.log").open("w") as log,
        subprocess.Popen([BICAST, "bridge", str(FILE), "--follow"], stdout=log, stderr=log) as bridge,
    ):
        controller.await_steady()
        tablet = net.machine("tablet")
        tablet.run("ip", "address", "add", f"{TABLET}/24", "dev", "lan")
        tablet.run("ip", "route", "add", "default", "via", "192.168.8.1")
        until(lambda: reaches(tablet, TABLET, WEB), "web is reached")
        yield GatewayLab(net, controller)
        bridge.terminate()
        bridge.wait()
        run(BICAST, "bridge", str(FILE), "--remove", check=False)
        for port in ("up-fibre", "up-lte", "ve-home"):
            run("ip", "link", "delete", port)
        run("nft", "flush", "ruleset")
        for priority in (8640, 8641, 8650, 8651, 8652):
            while run("ip", "rule", "delete", "priority", str(priority), check=False).returncode == 0:
                pass


def seen_from(home: GatewayLab) -> str:
    """Return the address by which web sees a connection of the tablet."""
    web, tablet = home.net.machine("web"), home.net.machine("tablet")
    listening = ["python3", "-c", LISTEN]
    with web.popen(listening, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "listens\n"
        tablet.run("python3", "-c", f"import socket; socket.create_connection(('{WEB}', 7), 30)")
        return str(server.stdout.readline().strip())


LISTEN = """
import socket
with socket.create_server(("", 7)) as server:
    print("listens", flush=True)
    print(server.accept()[1][0], flush=True)
"""


def uses(home: GatewayLab, uplink: str) -> bool:
    return seen_from(home).startswith(f"{PROVIDERS[uplink]}.")


def active(home: GatewayLab) -> str:
    (lan,) = (one for one in home.controller.client.get("status")["terminals"] if one["name"] == "lan")
    return str(lan["active_uplink"])


def pinged(tablet: Machine) -> tuple[int, int]:
    said = pings(tablet, TABLET, WEB, "-i", "0.02", count=PINGS)
    return len(set(re.findall(r"icmp_seq=(\d+)", said))), said.count("DUP!")


def test_packets_leave_and_return_by_the_active_uplink(home: GatewayLab) -> None:
    before = came(BRIDGE, "up-fibre")
    assert pinged(home.net.machine("tablet")) == (PINGS, 0)
    until(lambda: came(BRIDGE, "up-fibre") - before >= PINGS, "the answers came by the bridge")
    assert uses(home, "fibre")


def test_nothing_is_copied(home: GatewayLab) -> None:
    (lan,) = (one for one in home.controller.client.get("status")["terminals"] if one["name"] == "lan")
    assert (lan["mode"], lan["acting"]) == ("single", "single")
    assert "nothing is copied, because no peer site mirrors it" in run(BICAST, "check", str(FILE)).stdout


def test_a_person_moves_the_lan_to_the_other_uplink(home: GatewayLab) -> None:
    client = home.controller.client
    client.set_active("lan", "lte")
    home.await_in_force()
    assert uses(home, "lte")
    client.set_active("lan", "auto")
    until(lambda: active(home) == "fibre", "policies have the LAN again")


def test_a_new_address_and_router_of_an_uplink_are_followed(home: GatewayLab) -> None:
    """A new lease of DHCP changes both."""
    router = home.net.machine("fibre")
    router.run("ip", "address", "add", "192.0.2.129/25", "dev", "home")
    router.run("ip", "address", "delete", "192.0.2.1/24", "dev", "home")
    run("ip", "address", "add", "192.0.2.200/25", "dev", "fibre0")
    run("ip", "address", "delete", "192.0.2.10/24", "dev", "fibre0")
    run("ip", "route", "replace", "default", "via", "192.0.2.129", "dev", "fibre0", "metric", "100")
    until(lambda: "192.0.2.129" in run("ip", "route", "show", "table", "8660").stdout, "the bridge's way is followed")
    home.controller.client.set_active("lan", "fibre")
    until(lambda: reaches(home.net.machine("tablet"), TABLET, WEB), "web is reached again")
    assert seen_from(home) == "192.0.2.200"
    home.controller.client.set_active("lan", "auto")


def test_an_uplink_that_fails_beyond_its_router_is_left(home: GatewayLab) -> None:
    until(lambda: active(home) == "fibre", "fibre is the active uplink")
    home.net.machine("fibre").run("ip", "link", "set", "dev", "net", "down")
    until(lambda: reaches(home.net.machine("tablet"), TABLET, WEB), "web is reached by LTE")
    assert active(home) == "lte"
    assert uses(home, "lte")
