# SPDX-License-Identifier: Apache-2.0
"""Home's terminals reach the internet through the far site's host, which `bicast bridge` makes an exit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.processes.agents import SETTINGS, eliminating
from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage.command import run
from lab.stage.stage import raised
from lab.traffic.web import download, web_server
from tests.system.conftest import GatewayLab, greeted
from tests.system.evidence import assert_reaches, reaches, until
from tests.system.pinging import PINGS, pinged, pinging
from tests.system.test_elimination import lose, silent
from tests.system.test_twin import carried
from topologies.beyond import SIXTH, WEB, WEB6, BeyondTopo
from topologies.paper import SERVER

CLIENT, BY_LTE = "192.168.110.3", "192.168.210.3"
UPLINKS = ("wifi", "lte")
BYTES = 3_000_000
FILE = TREE / "topologies" / "beyond.yaml"


@contextmanager
def exit_made() -> Iterator[None]:
    """Make this process's namespace the far site's exit, and remove it for later tests."""
    run(str(TREE / "bicast"), "bridge", str(FILE), "--site", "far")
    try:
        yield
    finally:
        run("ip", "link", "delete", "ve-far")
        run("nft", "delete", "table", "inet", "bicast-exit")
        run("sysctl", "--quiet", "--write", "net.ipv6.conf.all.forwarding=0")


@pytest.fixture(scope="module")
def beyond(place: Path) -> Iterator[GatewayLab]:
    with (
        controlled(FILE, SETTINGS, directory=place) as controller,
        raised(BeyondTopo(shaped=False), controller=OPENFLOW) as net,
        exit_made(),
    ):
        controller.await_steady()
        home = GatewayLab(net, controller)
        home.returns_soon()
        greeted(home)
        with eliminating(controller, "home", "far"):
            home.await_in_force()
            for source, target in ((CLIENT, WEB), (SIXTH, WEB6)):
                until(lambda own=source, to=target: reaches(net.machine("client"), own, to), f"{target} is found")
            yield home


@contextmanager
def cut(home: GatewayLab, uplink: str) -> Iterator[None]:
    lose(home, uplink, 100)
    try:
        yield
    finally:
        lose(home, uplink, 0)
    with pinging(home, CLIENT):
        until(lambda: not silent(home, "home") | silent(home, "far"), f"{uplink} brings copies again")


def fetched(home: GatewayLab) -> bool:
    with web_server(home.net.machine("web"), WEB) as web:
        file = web.offer("file", BYTES)
        return download(home.net.machine("client"), file.url, timeout_s=60).sha256 == file.sha256


@pytest.mark.parametrize(("source", "target"), [(CLIENT, WEB), (BY_LTE, WEB), (SIXTH, WEB6)])
def test_internet_pings_use_both_uplinks_and_return_once(beyond: GatewayLab, source: str, target: str) -> None:
    before = {name: carried(name) for name in UPLINKS}
    assert pinged(beyond, source, target) == (PINGS, 0)
    for name, earlier in before.items():
        until(
            lambda name=name, earlier=earlier: all(
                now - then >= PINGS for now, then in zip(carried(name), earlier, strict=True)
            ),
            f"{name} has brought all to both sites",
        )


@pytest.mark.parametrize("uplink", UPLINKS)
def test_internet_traffic_survives_the_cut_of_an_uplink(beyond: GatewayLab, uplink: str) -> None:
    with cut(beyond, uplink):
        assert pinged(beyond, CLIENT, WEB) == (PINGS, 0)
        assert fetched(beyond)


def test_internet_hosts_see_the_address_of_the_far_site(beyond: GatewayLab) -> None:
    counts = "table ip who { chain asks { type filter hook prerouting priority raw; ip saddr 203.0.113.9 counter; }; }"
    web = beyond.net.machine("web")
    web.run("nft", "-f", "-", given=counts)
    try:
        assert_reaches(beyond.net.machine("client"), CLIENT, WEB)
        assert "packets 1 " in web.run("nft", "list", "table", "ip", "who").stdout
    finally:
        web.run("nft", "delete", "table", "ip", "who")


def test_internet_hosts_cannot_reach_terminals_first(beyond: GatewayLab) -> None:
    web = beyond.net.machine("web")
    web.run("ip", "route", "add", "192.168.0.0/16", "via", "203.0.113.9")
    try:
        assert not reaches(web, WEB, CLIENT)
        assert not reaches(web, WEB, SERVER)
    finally:
        web.run("ip", "route", "del", "192.168.0.0/16")
