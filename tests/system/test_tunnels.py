# SPDX-License-Identifier: Apache-2.0
"""Two sites behind real NATs, with real agents that make real tunnels through them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.stage.command import run
from lab.traffic.web import web_server
from tests.system import stranger
from tests.system.evidence import PATIENCE_S, SLOWNESS, arrivals, reaches, until
from tests.system.pinging import PINGS, assert_each_once, pinged, pinging
from tests.system.tunnelled import BY_LTE, CLIENT, SITES, TunnelLab, tunnelling
from topologies.natted import FAR_OUTER, OUTER, behind_one_address, nat
from topologies.paper import SERVER

FOLLOWED_WITHIN_S = [PATIENCE_S, pytest.param(3.0 * SLOWNESS, marks=pytest.mark.timed)]
PORTS = {"home": "tn", "far": "tf"}
INNER_PORT = 890  # of VXLAN (agent/tunnel/device.go)


@pytest.fixture(scope="module")
def tunnelled(place: Path) -> Iterator[TunnelLab]:
    with tunnelling(place) as both:
        yield both


@pytest.mark.parametrize("source", [CLIENT, BY_LTE])
def test_every_ping_is_answered_once(tunnelled: TunnelLab, source: str) -> None:
    assert pinged(tunnelled, source) == (PINGS, 0)


@pytest.fixture
def dialled(tunnelled: TunnelLab) -> Iterator[TunnelLab]:
    """Yield the sites, and restore and await wifi's outer address after the test."""
    yield tunnelled
    nat(tunnelled.net, "wifi").redial(f"{OUTER['wifi']}.10/24")
    until(lambda: tunnelled.peer("wifi").startswith(f"{OUTER['wifi']}.10:"), "wifi is found again")
    tunnelled.await_up()


@pytest.mark.parametrize("within_s", FOLLOWED_WITHIN_S)
def test_a_new_outer_address_is_followed_without_loss(dialled: TunnelLab, within_s: float) -> None:
    moves = dialled.tunnel("far", "wifi")["end"]["moves"]
    with pinging(dialled, CLIENT) as answers:
        nat(dialled.net, "wifi").redial(f"{OUTER['wifi']}.77/24")
        until(lambda: dialled.peer("wifi").startswith(f"{OUTER['wifi']}.77"), "it is followed", within_s)
        until(lambda: dialled.tunnel("far", "wifi")["end"]["moves"] > moves, "the agent reports the move")
    assert_each_once(answers())
    assert pinged(dialled, CLIENT) == (PINGS, 0)


@pytest.mark.parametrize("within_s", FOLLOWED_WITHIN_S)
def test_a_new_nat_mapping_is_followed_without_loss(dialled: TunnelLab, within_s: float) -> None:
    before = dialled.peer("wifi")
    with pinging(dialled, CLIENT) as answers:
        nat(dialled.net, "wifi").redial()
        until(lambda: dialled.peer("wifi") != before, "another port is followed", within_s)
        until(lambda: dialled.peer("wifi") != "", "there")
    assert_each_once(answers())
    assert dialled.peer("wifi").startswith(f"{OUTER['wifi']}.10")


def test_both_uplinks_may_be_behind_one_address(tunnelled: TunnelLab) -> None:
    net = tunnelled.net
    with behind_one_address(net):
        for uplink in OUTER:
            nat(net, uplink).redial()  # established mappings of the internet would remain
        until(
            lambda: {tunnelled.peer(uplink).split(":")[0] for uplink in OUTER} == {"203.0.113.1"}, "both are followed"
        )
        assert tunnelled.peer("wifi") != tunnelled.peer("lte"), "each by a port of its own"
        tunnelled.await_up()
        assert pinged(tunnelled, CLIENT) == (PINGS, 0)
    for uplink in OUTER:
        nat(net, uplink).redial()
    until(
        lambda: all(tunnelled.peer(uplink).startswith(f"{net}.10:") for uplink, net in OUTER.items()),
        "both are followed back",
    )
    tunnelled.await_up()


STRANGERS_PACKETS = 20


def send_from(tunnelled: TunnelLab, machine: str, *targets: str) -> None:
    (link,) = json.loads(run("ip", "-json", "-details", "link", "show", "tf-wifi").stdout)
    vni, mac = link["linkinfo"]["info_data"]["id"], link["address"].replace(":", "")
    words = (str(vni), mac, str(STRANGERS_PACKETS), CLIENT, SERVER, *targets)
    tunnelled.net.machine(machine).run(sys.executable, stranger.__file__, *words)


def test_foreign_packets_do_not_enter_a_tunnel(tunnelled: TunnelLab) -> None:
    (link,) = json.loads(run("ip", "-json", "-details", "link", "show", "tf-wifi").stdout)
    outer = f"bicast-{link['linkinfo']['info_data']['id']}"
    with arrivals(tunnelled.net.machine("server"), "lan") as came:
        came.since()
        send_from(tunnelled, "internet", *(f"{FAR_OUTER}:{port}" for port in (INNER_PORT, 51820, 51821)))
        send_from(tunnelled, "homehost", f"fe80::2%{outer}:{INNER_PORT}")  # with home's keys, as a control
        until(lambda: came.since()["lan", "ping"] > 0, "packets that home's host encrypts arrive")
        assert came.since()["lan", "ping"] == 0


def index_of(device: str) -> int:
    (link,) = json.loads(run("ip", "-json", "link", "show", device).stdout)
    return int(link["ifindex"])


def gone(tunnelled: TunnelLab, site: str) -> bool:
    agents = tunnelled.controller.client.get("status")["agents"]
    return all(one["name"] != site or one["state"] == "gone" for one in agents)


def test_a_killed_agents_devices_are_taken_over(tunnelled: TunnelLab) -> None:
    """The kernel here has no WireGuard, so tunnels pause while there is no agent."""
    server, client = tunnelled.net.machine("server"), tunnelled.net.machine("client")
    devices = {f"{PORTS[site]}-{uplink}": index_of(f"{PORTS[site]}-{uplink}") for site in SITES for uplink in OUTER}
    with web_server(server, SERVER) as web:
        file = web.offer("file", 20_000_000)
        words = ["curl", "--silent", "--fail", "--limit-rate", "5M", file.url]
        fetching = client.popen(words, stdout=subprocess.PIPE)
        assert fetching.stdout is not None
        content = hashlib.sha256(fetching.stdout.read(file.size_bytes // 4))
        tunnelled.agents["home"].kill()
        until(lambda: gone(tunnelled, "home"), "it is known to be gone")
        tunnelled.agents["home"].start()
        content.update(fetching.stdout.read())
        assert fetching.wait() == 0
        assert content.hexdigest() == file.sha256
    tunnelled.agents["home"].await_eliminating()
    tunnelled.await_up()
    tunnelled.await_in_force()
    assert {name: index_of(name) for name in devices} == devices
    assert pinged(tunnelled, CLIENT) == (PINGS, 0)


def test_tunnels_work_again_after_an_agent_restarts(tunnelled: TunnelLab) -> None:
    for site in SITES:
        tunnelled.agents[site].stop()
        until(lambda site=site: gone(tunnelled, site), "it is known to be gone")
        assert not run("ip", "link", "show", f"{PORTS[site]}-wifi", check=False).stdout, "it left nothing"
        tunnelled.agents[site].start()
        tunnelled.agents[site].await_eliminating()
        tunnelled.await_up()
    until(lambda: reaches(tunnelled.net.machine("client"), CLIENT, SERVER), "they carry")
    tunnelled.await_in_force()
    with arrivals(tunnelled.net.machine("farhost"), "un") as outer:
        outer.since()
        assert pinged(tunnelled, CLIENT) == (PINGS, 0)
        outer.await_count(2 * PINGS, "un", "udp")  # over both tunnels
