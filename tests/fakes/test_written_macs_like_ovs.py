"""A real Open vSwitch takes packets in a terminal's address from the MAC that is written for it alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from controller.program.compile import compile
from tests.controller import sites
from tests.controller.sites import PORTS
from tests.fakes.packet import Packet, tcp
from tests.fakes.real_switch import RealSwitch

CLIENT, CLIENT6, PHONE = "192.168.110.3", "fd00:110::3", "10.1.0.7"  # the phone's MAC is learned
CLIENT_GATEWAY_MAC = "08:00:27:f9:49:62"
STRANGER_MAC = "02:00:00:00:00:66"
BOTH = {PORTS["wifi0"].number, PORTS["lte0"].number}


def test_a_written_mac_is_enforced_there(tmp_path: Path) -> None:
    site = sites.paper_site()
    c1, lan = PORTS["c1"], PORTS["lan0"]
    with RealSwitch(tmp_path, tuple(port.number for port in PORTS.values()), ()) as real:
        real.load(compile(site, sites.known(site)))

        def leaves(packet: Packet, number: int) -> set[int]:
            return {sent.port for sent in real.send(packet, number).sent}

        for packet in (
            tcp(CLIENT, "198.51.100.7", eth_dst=CLIENT_GATEWAY_MAC),
            tcp(CLIENT6, "2001:db8::7", eth_dst=CLIENT_GATEWAY_MAC),
        ):
            assert leaves(packet, c1.number) == BOTH
            assert leaves(replace(packet, eth_src=STRANGER_MAC), c1.number) == set()
        phone = tcp(PHONE, "198.51.100.7", eth_src=STRANGER_MAC, eth_dst=lan.mac)
        assert leaves(phone, lan.number) == BOTH
