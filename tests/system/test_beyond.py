# SPDX-License-Identifier: Apache-2.0
"""Home's terminals reach whom neither site knows, through the far site's exit, made as docs/how-to/far-site.md says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.processes.agents import SETTINGS, eliminating
from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage.command import run
from lab.stage.stage import raised
from lab.traffic.web import download, web_server
from tests.system.conftest import Home, greeted
from tests.system.evidence import assert_reaches, reaches, until
from tests.system.pinging import PINGS, pinged, pinging
from tests.system.test_elimination import lose, silent
from tests.system.test_twin import carried
from topologies.beyond import SIXTH, WEB, WEB6, BeyondTopo
from topologies.paper import SERVER

CLIENT, BY_LTE = "192.168.110.3", "192.168.210.3"
UPLINKS = ("wifi", "lte")
BYTES = 3_000_000
SEGMENTS = BYTES // 1460
TOLD = (TREE / "docs/how-to/far-site.md").read_text(encoding="utf-8").split("## Internet access")[1]


def lines() -> str:
    return "".join(re.findall(r"```sh\n(.*?)```", TOLD.split("\n## ")[0], re.DOTALL))


@contextmanager
def exit_made() -> Iterator[None]:
    """In the namespace of this process, which other tests have after these."""
    # The machine's own IPv6, which the topology has off for devices to come; and off again on the bridge's port.
    run("sysctl", "--quiet", "--write", "net.ipv6.conf.default.disable_ipv6=0")
    run("sh", "-ec", lines())
    run("sysctl", "--quiet", "--write", "net.ipv6.conf.ve-far.disable_ipv6=1")
    try:
        yield
    finally:
        run("ip", "link", "delete", "ve-far")
        for family in ("ip", "ip6"):
            run("nft", "delete", "table", family, "beyond")
        run("sysctl", "--quiet", "--write", "net.ipv6.conf.all.forwarding=0")


@pytest.fixture(scope="module")
def beyond(place: Path) -> Iterator[Home]:
    with (
        controlled(TREE / "topologies" / "beyond.yaml", SETTINGS, directory=place) as controller,
        raised(BeyondTopo(shaped=False), controller=OPENFLOW) as net,
        exit_made(),
    ):
        controller.await_steady()
        home = Home(net, controller)
        home.returns_soon()
        greeted(home)
        with eliminating(controller, "home", "far"):
            home.await_in_force()
            for source, target in ((CLIENT, WEB), (SIXTH, WEB6)):
                until(lambda own=source, to=target: reaches(net.machine("client"), own, to), f"{target} is found")
            yield home


@contextmanager
def cut(home: Home, uplink: str) -> Iterator[None]:
    lose(home, uplink, 100)
    try:
        yield
    finally:
        lose(home, uplink, 0)
    with pinging(home, CLIENT):
        until(lambda: not silent(home, "home") | silent(home, "far"), f"{uplink} brings copies again")


@contextmanager
def counted(to_home: int, to_far: int) -> Iterator[None]:
    """Each uplink brings as many packets there, at least."""
    before = {name: carried(name) for name in UPLINKS}
    yield

    def enough(name: str) -> bool:
        home, far = (now - then for now, then in zip(carried(name), before[name], strict=True))
        return home >= to_home and far >= to_far

    for name in UPLINKS:
        until(lambda name=name: enough(name), f"{name} has brought {to_home} to home and {to_far} to far")


def fetched(home: Home) -> bool:
    with web_server(home.net.machine("web"), WEB) as web:
        file = web.offer("file", BYTES)
        return download(home.net.machine("client"), file.url, timeout_s=60).sha256 == file.sha256


@pytest.mark.parametrize(("source", "target"), [(CLIENT, WEB), (BY_LTE, WEB), (SIXTH, WEB6)])
def test_a_stranger_answers_every_ping_once_and_both_uplinks_carry_all(beyond: Home, source: str, target: str) -> None:
    with counted(PINGS, PINGS):
        assert pinged(beyond, source, target) == (PINGS, 0)


def test_a_download_from_a_stranger_rides_both_uplinks(beyond: Home) -> None:
    with counted(SEGMENTS, SEGMENTS // 20):  # one acknowledgement may be for many segments
        assert fetched(beyond)


@pytest.mark.parametrize("uplink", UPLINKS)
def test_an_uplink_that_is_cut_costs_nothing_on_the_way_to_a_stranger(beyond: Home, uplink: str) -> None:
    with cut(beyond, uplink):
        assert pinged(beyond, CLIENT, WEB) == (PINGS, 0)
        assert fetched(beyond)


def test_to_a_stranger_it_is_the_exit_that_speaks(beyond: Home) -> None:
    counts = "table ip who { chain asks { type filter hook prerouting priority raw; ip saddr 203.0.113.9 counter; }; }"
    web = beyond.net.machine("web")
    web.run("nft", "-f", "-", given=counts)
    try:
        assert_reaches(beyond.net.machine("client"), CLIENT, WEB)
        assert "packets 1 " in web.run("nft", "list", "table", "ip", "who").stdout
    finally:
        web.run("nft", "delete", "table", "ip", "who")


def test_a_stranger_reaches_nobody_unasked(beyond: Home) -> None:
    web = beyond.net.machine("web")
    web.run("ip", "route", "add", "192.168.0.0/16", "via", "203.0.113.9")
    try:
        assert not reaches(web, WEB, CLIENT)
        assert not reaches(web, WEB, SERVER)
    finally:
        web.run("ip", "route", "del", "192.168.0.0/16")
