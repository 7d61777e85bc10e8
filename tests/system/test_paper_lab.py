# SPDX-License-Identifier: Apache-2.0
"""The controller sends each packet of the paper's lab over the right uplinks in each mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.traffic.web import WebFile, WebServer, download, web_server
from tests.system.conftest import GatewayLab, PeopleOverrides
from tests.system.evidence import Arrivals, arrivals, pings, until
from topologies.paper import SERVER

WIFI_SIDE, LTE_SIDE = "192.168.110.3", "192.168.210.3"
BYTES = 300_000  # few enough to overflow no queue of an unshaped link


@pytest.fixture
def router(paper: GatewayLab) -> Iterator[Arrivals]:
    with arrivals(paper.net.machine("router"), "wifi", "lte", "lan") as counted:
        yield counted


@pytest.fixture
def client(paper: GatewayLab) -> Iterator[Arrivals]:
    with arrivals(paper.net.machine("client"), "wifi", "lte") as counted:
        yield counted


@pytest.fixture(scope="module")
def web(paper: GatewayLab) -> Iterator[WebServer]:
    with web_server(paper.net.machine("server"), SERVER) as web:
        yield web


@pytest.fixture(scope="module")
def file(web: WebServer) -> WebFile:
    return web.offer("small", BYTES)


def plain_download(home: GatewayLab, file: WebFile, source: str) -> None:
    """Download without MPTCP, so that every packet has this one address."""
    words = ("curl", "--silent", "--fail", "--noproxy", "*", "--interface", source, "--output", "/dev/null", file.url)
    home.net.machine("client").run(*words)


def test_a_terminal_reaches_the_server_from_each_address(paper: GatewayLab) -> None:
    for source in (WIFI_SIDE, LTE_SIDE):
        told = pings(paper.net.machine("client"), source, SERVER)
        assert ", 0% packet loss" in told
        assert "ttl=62" in told, "the gateway and the router each take one"
        assert "DUP" not in told, "a ping is not of the class that is bicast"


@pytest.mark.parametrize("source", [WIFI_SIDE, LTE_SIDE])
def test_bicast_copies_each_tcp_packet_to_both_uplinks(
    paper: GatewayLab, file: WebFile, router: Arrivals, client: Arrivals, source: str
) -> None:
    plain_download(paper, file, source)
    seen, back = router.since(), client.since()

    def even() -> bool:
        seen.update(router.since())
        return seen["wifi", "tcp"] == seen["lte", "tcp"] > 20

    until(even, "the last packets' copies, too, are there on both sides")
    own = "wifi" if source == WIFI_SIDE else "lte"
    other = "lte" if source == WIFI_SIDE else "wifi"
    assert back[own, "tcp"] > BYTES / 1500
    assert back[other, "tcp"] == 0, "what comes back goes to the address that asked"


@pytest.mark.parametrize(
    ("mode", "source", "active", "uplink"),
    [
        ("single", WIFI_SIDE, "lte", "lte"),
        ("single", LTE_SIDE, "wifi", "wifi"),
        ("off", WIFI_SIDE, "lte", "wifi"),
        ("off", LTE_SIDE, "wifi", "lte"),
    ],
)
def test_single_uses_the_active_uplink_and_off_that_of_the_subnet(
    paper: GatewayLab,
    wish: PeopleOverrides,
    file: WebFile,
    router: Arrivals,
    mode: str,
    source: str,
    active: str,
    uplink: str,
) -> None:
    wish.mode(mode)
    wish.active(active)
    plain_download(paper, file, source)
    seen = router.since()
    assert seen[uplink, "tcp"] > 20
    assert seen["lte" if uplink == "wifi" else "wifi", "tcp"] == 0


def test_traffic_outside_bicast_uses_the_active_uplink(
    paper: GatewayLab, wish: PeopleOverrides, router: Arrivals
) -> None:
    wish.active("lte")
    pings(paper.net.machine("client"), WIFI_SIDE, SERVER)
    seen = router.since()
    assert seen["lte", "ping"] >= 3 and seen["wifi", "ping"] == 0


def test_an_mptcp_download_with_copies_is_intact(paper: GatewayLab, file: WebFile) -> None:
    got = download(paper.net.machine("client"), file.url)
    assert (got.sha256, got.mptcp) == (file.sha256, True)
