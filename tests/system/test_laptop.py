# SPDX-License-Identifier: Apache-2.0
"""A terminal that is its own gateway: Open vSwitch and the applications share one machine, without another device."""

from __future__ import annotations

from pathlib import Path

from lab.processes.controller import OPENFLOW, controlled
from lab.stage.stage import raised
from lab.traffic.web import WebServer, web_server
from tests.system.conftest import PAPER, GatewayLab
from tests.system.evidence import arrivals, pings, until
from tests.system.test_paper_lab import BYTES, LTE_SIDE, WIFI_SIDE, plain_download
from topologies.paper import SERVER, PaperTopo


def test_a_laptop_copies_by_its_own_bridge_and_receives_once(tmp_path: Path) -> None:
    with (
        controlled(PAPER, directory=tmp_path) as controller,
        raised(PaperTopo(shaped=False, one_machine=True), controller=OPENFLOW) as net,
        web_server(net.machine("server"), SERVER) as web,
    ):
        controller.await_steady()
        copies_and_receives_once(GatewayLab(net, controller), web)


def copies_and_receives_once(laptop: GatewayLab, web: WebServer) -> None:
    net, file = laptop.net, web.offer("small", BYTES)
    for source in (WIFI_SIDE, LTE_SIDE):
        told = pings(net.machine("client"), source, SERVER)
        assert ", 0% packet loss" in told
        assert "DUP" not in told, "Linux must not take a reply from the uplink beside Open vSwitch"
    with arrivals(net.machine("router"), "wifi", "lte") as router:
        plain_download(laptop, file, WIFI_SIDE)
        seen = router.since()

        def even() -> bool:
            seen.update(router.since())
            return seen["wifi", "tcp"] == seen["lte", "tcp"] > 20

        until(even, "both uplinks carried each packet")
