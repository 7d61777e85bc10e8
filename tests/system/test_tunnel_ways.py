# SPDX-License-Identifier: Apache-2.0
"""If a tunnel's path shrinks or dies, senders learn its MTU, and no packet is lost. If its peer is revoked, it ends."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.stage.command import run
from lab.stage.nodes import Machine
from lab.traffic.web import download, sha256, upload, web_server
from tests.system.evidence import groups, reaches, until
from tests.system.pinging import PINGS, assert_each_once, pinged, pinging
from tests.system.test_tunnels import gone
from tests.system.tunnelled import CLIENT, SITES, TunnelLab, tunnelling
from topologies.natted import narrowed, nat
from topologies.paper import BRIDGE, SERVER
from topologies.twin import FAR

PATHS = (1492, 1400, 1280)  # PPPoE; one that nobody announces; the least of IPv6
OUTER_BYTES, PADDED_TO = 60, 16  # IPv4, UDP and WireGuard, which pads
INNER_BYTES = 70  # IPv6, UDP, VXLAN and Ethernet inside it
TCP_BYTES = 40
FILE_BYTES = 3_000_000


@pytest.fixture(scope="module")
def tunnelled(place: Path) -> Iterator[TunnelLab]:
    with tunnelling(place) as both:
        yield both


@pytest.fixture(params=PATHS)
def narrow(tunnelled: TunnelLab, request: pytest.FixtureRequest) -> Iterator[int]:
    """Limit Wi-Fi silently, and yield the size inside once both sites have found it."""
    inside = (request.param - OUTER_BYTES) // PADDED_TO * PADDED_TO - INNER_BYTES
    with narrowed(tunnelled.net, "wifi", request.param):
        for site in SITES:
            until(lambda site=site: tunnelled.largest(site) == inside, f"{site} has found out")
        yield inside
    nat(tunnelled.net, "wifi").redial()  # a new peer's path is measured again
    tunnelled.await_up()


@contextmanager
def first_syn(machine: Machine) -> Iterator[list[str]]:
    """Capture the first SYN that reaches a machine. The list has it after the block."""
    words = ["timeout", "60", "tcpdump", "-nn", "-c", "1", "-i", "lan", "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn"]
    dump = machine.popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert dump.stderr is not None
    while "listening" not in dump.stderr.readline():
        assert dump.poll() is None
    said: list[str] = []
    yield said
    said.append(dump.communicate()[0])


@pytest.mark.slow
def test_senders_learn_the_mtu_of_a_narrow_path(tunnelled: TunnelLab, narrow: int, tmp_path: Path) -> None:
    client, server = tunnelled.net.machine("client"), tunnelled.net.machine("server")
    words = ("ping", "-M", "do", "-s", "1450", "-c", "2", "-i", "0.2", "-W", "1", "-I", CLIENT, SERVER)
    client.run("ip", "route", "flush", "cache")
    said = client.run(*words, check=False).stdout
    assert re.search(rf"Frag needed and DF set \(mtu = {narrow}\)", said), said
    client.run("ip", "route", "flush", "cache")  # so that it starts with 1500 again
    file = tmp_path / "content"
    file.write_bytes(bytes(range(256)) * (FILE_BYTES // 256))
    with web_server(server, SERVER, mptcp=False) as web:
        with first_syn(server) as syn:
            upload(client, file, web.url("up"), timeout_s=60)
        assert sha256(web.file("up")) == sha256(file)
        offered = web.offer("down", FILE_BYTES)
        assert download(client, offered.url, timeout_s=60, mptcp=False).sha256 == offered.sha256
    assert re.findall(r"mss (\d+)", syn[0]) == [str(narrow - TCP_BYTES)]


def test_a_dead_tunnel_is_an_alarm_and_left_without_loss(tunnelled: TunnelLab) -> None:
    wifi = tunnelled.net.uplink("wifi")
    with pinging(tunnelled, CLIENT) as answers:
        for way in (wifi.forward, wifi.backward):
            way.set(loss_percent=100)
        try:
            until(lambda: not any(tunnelled.tunnel(site, "wifi")["up"] for site in SITES), "both sites have noticed")
            until(
                lambda: not outputs_to(BRIDGE, "tn-wifi") and not outputs_to(FAR, "tf-wifi"),
                "nothing is sent there any more",
            )
            assert re.search(r"^! home: wifi: its tunnel is down: ", run("./bicast", "status").stdout, re.MULTILINE)
        finally:
            for way in (wifi.forward, wifi.backward):
                way.set(loss_percent=0)
        until(lambda: all(tunnelled.tunnel(site, "wifi")["up"] for site in SITES), "it stands again")
        until(lambda: outputs_to(BRIDGE, "tn-wifi") and outputs_to(FAR, "tf-wifi"), "it is used again")
    assert_each_once(answers())
    assert pinged(tunnelled, CLIENT) == (PINGS, 0)


def outputs_to(bridge: str, port: str) -> bool:
    return any(f'output:"{port}"' in group for group in groups(bridge))


def test_a_far_site_that_was_away_learns_of_a_revocation(tunnelled: TunnelLab) -> None:
    """This must be the last test: home does not return, like a thief who keeps its keys."""
    client = tunnelled.net.machine("client")
    for link in ("mg-home", "mg-far"):  # to the controller
        run("ip", "link", "set", link, "down")
    for site in SITES:
        until(lambda site=site: gone(tunnelled, site), "it is known to be gone")
    tunnelled.controller.client.revoke("home")
    assert reaches(client, CLIENT, SERVER), "nobody has told them"
    run("ip", "link", "set", "mg-far", "up")
    until(lambda: not gone(tunnelled, "far"), "it is back")
    until(lambda: not reaches(client, CLIENT, SERVER), "home's packets are refused")
