# SPDX-License-Identifier: Apache-2.0
"""A real Open vSwitch accepts compiled programs and forwards packets like the fake switch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from controller.model.relaying import HOST_MAC
from controller.program.compile import compile
from tests.controller import relayed_site, sites
from tests.controller.relayed_site import PORTS
from tests.fakes.packet import Packet, tcp, udp
from tests.fakes.real_switch import RealSwitch
from tests.fakes.switch import FakeSwitch

CLIENT, CLIENT6, CLIENT_GATEWAY_MAC = "192.168.110.3", "fd00:110::3", "08:00:27:f9:49:62"
STRANGER_MAC = "02:00:00:00:00:66"
PHONE, PHONE6, SERVER, SERVER6 = "10.1.0.7", "fd00:1::7", "198.51.100.7", "2001:db8::7"
RELAYED = [
    ("lan0", tcp(PHONE, SERVER, eth_dst=PORTS["lan0"].mac)),
    ("lan0", tcp(PHONE6, SERVER6, eth_dst=PORTS["lan0"].mac)),
    ("lan0", udp(PHONE, SERVER, eth_dst=PORTS["lan0"].mac)),
    ("lan0", tcp(PHONE, "203.0.113.9", eth_dst=PORTS["lan0"].mac)),
    ("rl-home", tcp(SERVER, PHONE)),
    ("rl-home", tcp(PHONE, SERVER)),
    ("rl-home", udp(PHONE, SERVER)),
    ("rl-wifi", tcp("10.97.1.7", SERVER, eth_src=HOST_MAC, eth_dst=PORTS["rl-wifi"].mac)),
    ("rl-wifi", tcp("10.97.1.7", SERVER, eth_dst=PORTS["rl-wifi"].mac)),
    ("rl-wifi", tcp(PHONE, SERVER, eth_dst=PORTS["rl-wifi"].mac)),
    ("lte0", tcp(SERVER, "10.97.2.7", eth_dst=PORTS["lte0"].mac)),
]


def assert_same(place: Path, fake: FakeSwitch, packets: list[tuple[str, Packet]]) -> None:
    with RealSwitch(place, tuple(port.number for port in fake.ports.values()), ()) as real:
        real.load(fake.installed().program)
        assert real.held() == (len(fake.flows), set(fake.groups))
        for port, packet in packets:
            number = fake.ports[port].number
            assert set(real.send(packet, number).sent) == set(fake.send(packet, number).sent), f"{packet} by {port}"


def test_ovs_runs_a_relaying_program_like_the_fake(tmp_path: Path) -> None:
    site = relayed_site.site()
    assert_same(tmp_path, relayed_site.switch_with(site, relayed_site.known(site)), RELAYED)


def test_ovs_enforces_a_configured_mac_like_the_fake(tmp_path: Path) -> None:
    """The phone's MAC is learned, so any is accepted. program/test_compile.py checks that strangers are refused."""
    site = sites.paper_site()
    own = [tcp(CLIENT, SERVER, eth_dst=CLIENT_GATEWAY_MAC), tcp(CLIENT6, SERVER6, eth_dst=CLIENT_GATEWAY_MAC)]
    phone = tcp(PHONE, SERVER, eth_src=STRANGER_MAC, eth_dst=PORTS["lan0"].mac)
    packets = [*own, *(replace(each, eth_src=STRANGER_MAC) for each in own)]
    fake = FakeSwitch(sites.PORTS).load(compile(site, sites.known(site)))
    assert_same(tmp_path, fake, [*(("c1", each) for each in packets), ("lan0", phone)])
