# SPDX-License-Identifier: Apache-2.0
"""The gateway of docs/how-to/home.md behind two routers that translate addresses, each to its own. Nothing is copied
there by default: servers answer the second copy of a TCP segment with a reset. An uplink that brings nothing back
is left by what the switch alone sees."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.processes.controller import LOOK_EVERY_S, OPENFLOW, TREE, Controller, controlled
from lab.stage import command, ovs
from lab.stage.nodes import Gateway, Machine, Nat, Route
from lab.stage.stage import Stage, raised
from lab.traffic.web import WebServer, download, web_server
from tests.system.evidence import PATIENCE_S, SLOWNESS

PHONE, WEB = "192.168.110.10", "203.0.113.5"
BYTES = 100_000
DOWNLOADS = 5
ROUTERS = {"fibre": ("192.168.100", "198.51.100"), "lte": ("192.168.200", "192.0.2")}  # networks inside and outside


class TwoNats(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self) -> None:
        self.addSwitch("br-home", cls=Gateway, dpid="0000000000000001")
        self.addHost(
            "phone", cls=Machine, addresses={"lan": [f"{PHONE}/24"]}, routes=[Route("default", "192.168.110.1")]
        )
        self._link("phone", "br-home", "lan", "enp3s0", port2=3)
        internet = {name: [f"{outside}.1/24"] for name, (_, outside) in ROUTERS.items()}
        self.addHost("internet", cls=Machine, forwards=True, addresses={**internet, "web": ["203.0.113.1/24"]})
        for number, (name, (inside, outside)) in enumerate(ROUTERS.items(), 1):
            back = [Route(f"192.168.{net}.0/24", f"{inside}.2") for net in (110, 210)]
            self.addHost(
                name,
                cls=Nat,
                addresses={"in": [f"{inside}.1/24"], "out": [f"{outside}.10/24"]},
                routes=[*back, Route("default", f"{outside}.1")],
            )
            self._link("br-home", name, f"enp{number}s0", "in", port1=number, label=name)
            self._link(name, "internet", "out", name)
        self.addHost("web", cls=Machine, addresses={"lan": [f"{WEB}/24"]}, routes=[Route("default", "203.0.113.1")])
        self._link("web", "internet", "lan", "web")

    def _link(self, node1: str, node2: str, name1: str, name2: str, **options: Any) -> None:
        self.addLink(node1, node2, cls=ShapedLink, intfName1=name1, intfName2=name2, **options)


WITHIN_S = 7.0 + 3 * SLOWNESS  # the controller asks the switch every second; the rest is for a busy machine


@dataclass(frozen=True, slots=True)
class Home:
    net: Stage
    controller: Controller
    web: WebServer

    def resets(self) -> int:
        """That the server has sent since it was raised."""
        names, values = [
            line.split()
            for line in self.net.machine("web").run("cat", "/proc/net/snmp").stdout.splitlines()
            if "Tcp:" in line
        ]
        return int(dict(zip(names, values, strict=True))["OutRsts"])

    def fetch(self) -> int:
        """How many of some downloads come whole."""
        file = self.web.offer("file", BYTES)
        phone = self.net.machine("phone")
        found = 0
        for _ in range(DOWNLOADS):
            with contextlib.suppress(command.CommandFailed):
                found += download(phone, file.url, timeout_s=10, mptcp=False).sha256 == file.sha256
        return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    page = (TREE / "docs/how-to/home.md").read_text()
    file = tmp_path / "gateway.yaml"
    file.write_text(
        page[page.index("```yaml\n") + 8 :].partition("```")[0].replace("datapath: system", "datapath: netdev")
    )
    with (
        controlled(file) as controller,
        raised(TwoNats(), controller=OPENFLOW) as net,
        web_server(net.machine("web"), WEB, mptcp=False) as web,
    ):
        controller.await_steady()
        yield Home(net, controller, web)


def test_by_default_nothing_is_reset_and_with_copies_connections_are(home: Home) -> None:
    assert home.fetch() == DOWNLOADS and home.resets() == 0
    home.controller.client.set_mode("phone", "bicast")
    home.controller.await_steady()
    ovs.await_caches()
    home.fetch()
    assert home.resets() > 0, "else this laboratory shows nothing"


@pytest.mark.parametrize("within_s", [PATIENCE_S, pytest.param(WITHIN_S, marks=pytest.mark.timed)])
def test_an_uplink_that_is_dead_downwards_is_left_though_no_agent_tells(home: Home, within_s: float) -> None:
    phone, client = home.net.machine("phone"), home.controller.client
    assert home.fetch() == DOWNLOADS, "next hops have answered"
    with phone.popen(["ping", "-q", "-i", "0.02", WEB], stdout=subprocess.DEVNULL) as calling:
        try:
            home.net.uplink("fibre").backward.set(loss_percent=100)
            began = time.monotonic()
            while client.get("terminals", "phone")["active_uplink"] != "lte" and time.monotonic() - began < within_s:
                time.sleep(LOOK_EVERY_S)  # the API has no event to wait for
        finally:
            calling.terminate()
    told = client.get("terminals", "phone", "decisions")
    assert told["active_uplink"] == "lte", told
    assert "it brings nothing back" in told["decisions"][0]["because"]
    assert home.fetch() == DOWNLOADS
