# SPDX-License-Identifier: Apache-2.0
"""The controller's death changes nothing on the wire, and its return changes no flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.edges.http.client import Client
from lab.processes.controller import OPENFLOW, controlled
from lab.stage.stage import raised
from lab.traffic.download import DownloadResult, flowing
from lab.traffic.web import web_server
from tests.system.conftest import PAPER, GatewayLab, slowed
from tests.system.evidence import gateway, program, reaches, snooping, until
from topologies.paper import BRIDGE, SERVER, WIFI_BPS, PaperTopo

BYTES = 80_000_000
SLOW_BPS = 4_000_000  # the download takes 160 s; a controller has 60 s to start and 60 s to be steady
LONGEST_PAUSE_S = 1.0  # a download has pauses of its own; bench publishes the figure


@pytest.fixture(scope="module")
def home(place: Path) -> Iterator[GatewayLab]:
    """Yield a home with no bicast in its file, so that bicast is an override."""
    kept = place / "kept"
    kept.mkdir()
    file = place / "plain.yaml"
    file.write_text(PAPER.read_text().replace("mode: bicast", 'mode: "off"'))
    with (
        controlled(file, directory=kept) as controller,
        raised(PaperTopo(congestion_control="bbr"), controller=OPENFLOW) as net,
    ):
        controller.await_steady()
        home = GatewayLab(net, controller)
        home.returns_soon()
        yield home


@contextmanager
def as_it_was(home: GatewayLab) -> Iterator[Client]:
    """Restart the controller after the block if it is dead, and restore mode and uplink."""
    client = home.controller.client
    before = client.get("terminals", "client")
    try:
        yield client
    finally:
        if home.controller.process.poll() is not None:
            home.controller.start()
        home.controller.await_steady()
        client.set_active("client", before["active_uplink"])
        client.set_mode("client", before["mode"])


def test_kill_9_during_a_download_loses_no_byte_or_override(home: GatewayLab) -> None:
    with as_it_was(home) as client:
        client.set_mode("client", "bicast")
        client.set_active("client", "lte")
        home.await_in_force()
        _killed_under_a_download(home, SLOW_BPS)
        status = client.get("status")
    assert gateway(status)["changes_sent"] == 0
    (terminal,) = status["terminals"]
    assert (terminal["mode"], terminal["mode_overridden"]) == ("bicast", True)
    assert (terminal["active_uplink"], terminal["active_by"]) == ("lte", "people")


@pytest.mark.timed
def test_kill_9_pauses_a_download_for_less_than_a_second(home: GatewayLab) -> None:
    with as_it_was(home) as client:
        client.set_mode("client", "bicast")
        client.set_active("client", "lte")
        home.await_in_force()
        assert _killed_under_a_download(home, WIFI_BPS).longest_pause_s < LONGEST_PAUSE_S


def _killed_under_a_download(home: GatewayLab, wifi_bps: int) -> DownloadResult:
    """Kill the controller during a download. Wi-Fi has this rate until the controller has returned."""
    before = program(BRIDGE)
    with web_server(home.net.machine("server"), SERVER) as web, snooping(BRIDGE) as snoop:
        file = web.offer("long", BYTES)
        with (
            slowed(home.net, wifi_bps, "wifi") as at_full_rate,
            flowing(home.net.machine("client"), file) as download,
        ):
            heard = snoop.number()
            home.controller.kill()
            home.controller.start()
            home.controller.await_steady()
            assert not download.ended, "the controller must die and come back while it runs"
            at_full_rate()
            received = download.received()
        snoop.settled()
        assert snoop.modifications(heard) == {}
    assert (received.size_bytes, received.sha256) == (file.size_bytes, file.sha256)
    assert program(BRIDGE) == before
    return received


def test_a_dead_port_is_bypassed_without_a_controller(home: GatewayLab) -> None:
    router = home.net.machine("router")
    with as_it_was(home) as client:
        client.set_mode("client", "single")
        client.set_active("client", "wifi")
        home.await_in_force()  # a message that the switch has not read would be lost with the connection
        home.controller.kill()
        try:
            router.run("ip", "link", "set", "wifi", "down")
            # The router must return the answer over the other uplink, too.
            router.run("ip", "route", "replace", "192.168.110.0/24", "via", "192.168.200.2")
            until(lambda: reaches(home.net.machine("client"), "192.168.110.3", SERVER), "it goes by the other uplink")
        finally:
            router.run("ip", "link", "set", "wifi", "up")
            router.run("ip", "route", "replace", "192.168.110.0/24", "via", "192.168.100.2")
