# SPDX-License-Identifier: Apache-2.0
"""Each packet counts once, whatever happens to flows and groups between two readings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.features.copies.packet_counts import Passed, Traffic
from controller.model.config import Site
from controller.program.compile import compile
from controller.program.program import EMPTY
from controller.program.tables import LEAVE
from tests.controller import sites
from tests.controller.copied_terminal import GATEWAY_MAC
from tests.controller.sites import PORTS
from tests.fakes.packet import Packet, tcp, udp
from tests.fakes.switch import FakeSwitch

SERVER = "10.9.0.1"
DATAGRAM = udp("192.168.110.3", SERVER, eth_dst=GATEWAY_MAC)
SEGMENT = tcp("192.168.110.3", SERVER, eth_dst=GATEWAY_MAC)


class CountedSwitch:
    """The switch of a site, read once a second, while an agent at the peer site comes and goes."""

    def __init__(self) -> None:
        self.site = sites.paper_site()
        self.fake = FakeSwitch(PORTS)
        self.traffic = Traffic()
        self.now = 0.0
        self.sent = 0
        self.load(self.site)
        self.read()

    def load(self, site: Site) -> None:
        self.site = site
        self.fake.load(compile(site, sites.known(site)))

    def eliminates(self, whole: bool) -> None:
        """Let the peer site eliminate copies, so that everything is copied here, or only TCP if it does not."""
        site = sites.paper_site()
        self.load(replace(site, bicast=site.bicast_once) if whole else site)

    def sends(self, packets: int, packet: Packet = DATAGRAM) -> None:
        for _ in range(packets):
            self.fake.send(packet, PORTS["c1"].number)
        self.sent += packets

    def read(self) -> None:
        self.now += 1.0
        self.traffic.read(self.site, self.fake.installed(), self.now)

    @property
    def passed(self) -> tuple[Passed, ...]:
        return tuple(each for each in self.traffic.passed("client", self.now)[1] if each.sent)

    @property
    def counted(self) -> int:
        return sum(each.copied + each.alone for each in self.passed)


@pytest.mark.parametrize("packet", [DATAGRAM, SEGMENT])
def test_packets_count_once_when_flows_change_groups(packet: Packet) -> None:
    switch = CountedSwitch()
    for second in range(12):
        switch.eliminates(second // 3 % 2 == 0)
        switch.sends(50, packet)
        switch.read()
    assert switch.counted == switch.sent == 600
    if packet is DATAGRAM:
        assert sum(each.copied for each in switch.passed) == 300, "copied during elimination at the peer site"


def test_packets_count_once_when_a_flow_is_added_again() -> None:
    switch = CountedSwitch()
    switch.sends(50)
    switch.read()
    switch.fake.load(EMPTY)
    switch.load(switch.site)
    switch.sends(7)
    switch.read()
    assert switch.counted == switch.sent == 57


def test_packets_of_a_foreign_flow_do_not_count() -> None:
    switch = CountedSwitch()
    ours = switch.fake.taken(LEAVE, DATAGRAM, PORTS["c1"].number)
    assert ours is not None
    switch.fake.add_foreign(ours)
    switch.sends(1000)
    switch.read()
    switch.load(switch.site)
    switch.read()
    assert switch.counted == 0
    switch.sends(50)
    switch.read()
    assert switch.counted == 50
