# SPDX-License-Identifier: Apache-2.0
"""On a metered active uplink, the call's own packets show its loss, and `why` names the source of evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.protocol.reports import PathHealth
from controller.readout.why import course
from tests.controller.features.copies.test_arrivals import CopiedSites, auto
from tests.controller.features.peer_sites.test_manager import CLIENT, FAR, FAR_WIFI, HOME, INSIDE
from tests.controller.features.peer_sites.test_peer_program import SERVER
from tests.controller.features.peer_sites.test_tunnels import tunnelled
from tests.fakes.packet import udp

BUDGET = "100MB/day"


def metered(tunnel: bool) -> dict[str, Any]:
    written = auto()
    if tunnel:
        uplinks = tunnelled()["sites"]
        for site in ("home", "far"):
            written["sites"][site]["uplinks"] = uplinks[site]["uplinks"]
        written["controller"] = {"agents": {}}
    written["sites"]["home"]["uplinks"]["wifi"]["budget"] = BUDGET
    return written


class TunnelCall(CopiedSites):
    """A call of 50 packets a second on one path, with its uplink probed once a second."""

    def __init__(self, tunnel: bool = True) -> None:
        super().__init__(metered(tunnel))
        self.core.decisions = replace(self.core.decisions, copies={"client": False, "phone": False})
        self.restart()  # decisions are kept
        self.drain()
        self.path = PathHealth("wifi", "", 0, 0, 0, 0, 0, ())
        self.number = 0

    def calls(self, seconds: int, lost_of_100: int = 0) -> None:
        packet = udp(CLIENT, SERVER, eth_dst="08:00:27:f9:49:62")
        for _ in range(seconds):
            for _ in range(50):
                self.number += 1
                self.fakes[HOME].send(packet, INSIDE)
                if self.number * lost_of_100 % 100 >= lost_of_100:
                    self.fakes[FAR].send(packet, FAR_WIFI)
            self.path = replace(self.path, sent=self.path.sent + 1)
            self.pass_time(1.0)
            for host in tuple(self.hosts.values()):
                report = host.report()
                self.tell(replace(report, health=(self.path,)) if host is self.near else report)
            self.drain()

    def why(self) -> str:
        return course(self.core, "client", self.now, 0.0).copying.reason


def test_call_loss_in_a_metered_tunnel_begins_copies() -> None:
    for lost_of_100, within_s in ((4, 10), (15, 4)):
        ends = TunnelCall()
        ends.calls(30)
        assert not ends.decided() and "its two ends count packets" in ends.why()
        began = ends.now
        ends.calls(within_s, lost_of_100)
        (entry,) = ends.decided()
        assert entry.copies and entry.at - began <= within_s and "as counted at both ends of the tunnel" in entry.reason
        assert "metered" not in ends.why(), "no urgency with copies"


def test_metered_ethernet_uplink_is_shown_as_watched_slowly() -> None:
    ends = TunnelCall(tunnel=False)
    ends.calls(15, lost_of_100=15)
    assert not ends.decided(), "packets on Ethernet may be for other hosts"
    assert "metered: wifi gets only one probe a second" in ends.why()
