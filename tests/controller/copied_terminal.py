# SPDX-License-Identifier: Apache-2.0
"""A terminal in mode auto that sends on both subflows, with four reports of them a second."""

from __future__ import annotations

from typing import Any

from controller.features.steering.logbook import LogEntry
from controller.model.decisions import Decisions
from controller.model.in_force import InForce
from controller.protocol.reports import Role
from tests.controller.features.steering.test_manager import RELAY_ADDRESS, SteeringScenario
from tests.controller.sites import PORTS
from tests.fakes.host import FakeHost
from tests.fakes.packet import tcp, udp
from tests.fakes.switch import FakeSwitch

PERIOD_S = 0.25
ONE_PATH = InForce(decisions=Decisions(copies={"client": False}))
GATEWAY_MAC = "08:00:27:f9:49:62"
UPLINKS = {PORTS["wifi0"].number: "wifi", PORTS["lte0"].number: "lte"}


class UploadScenario(SteeringScenario):
    def __init__(
        self, in_force: InForce | None = None, mode: str = "auto", written: dict[str, Any] | None = None
    ) -> None:
        super().__init__(in_force, mode, written)
        self.connection()
        self.host = self.client()
        self.reports(self.host)

    def uploads(self, seconds: float, loss: float = 0.0, segments: int = 100) -> None:
        """Send for some time, with the given loss on every uplink in use."""
        self.sends(Role.TERMINAL, self.host, seconds, loss, segments)

    def receives(self, seconds: float, asks: int = 0) -> None:
        """Receive for some time. Its acknowledgements are not counted; `asks` is the number of own segments per
        report.
        """
        for _ in range(round(seconds / PERIOD_S)):
            for connection in self.world:
                for subflow in connection.carrying():
                    subflow.server.bytes_acked += 1_000_000
                    subflow.terminal.segments_sent += asks
                    subflow.terminal.bytes_acked += asks * 1400
            self.pass_time(PERIOD_S)
            self.reports(self.host)

    def sends(self, role: Role, host: FakeHost, seconds: float, loss: float, segments: int = 100) -> None:
        for _ in range(round(seconds / PERIOD_S)):
            for connection in self.world:
                for subflow in connection.carrying():
                    end = subflow.terminal if role is Role.TERMINAL else subflow.server
                    end.segments_sent += segments
                    end.retransmits += round(segments * loss)
                    end.bytes_acked += segments * 1400
            self.pass_time(PERIOD_S)
            self.reports(host)

    def reports(self, host: FakeHost) -> None:
        self.tell(host.report(int(PERIOD_S * 1000)))
        self.drain()

    def calls(self, seconds: float, segments: int = 0, per_s: float = 50) -> None:
        """Make a call with this many packets a second, beside this many TCP segments each quarter of a second."""
        packet = udp("192.168.110.3", RELAY_ADDRESS, eth_dst=GATEWAY_MAC)
        for period in range(round(seconds / PERIOD_S)):
            for _ in range(int((period + 1) * per_s * PERIOD_S) - int(period * per_s * PERIOD_S)):
                self.fakes[1].send(packet, PORTS["c1"].number)
            segment = tcp("192.168.110.3", RELAY_ADDRESS, eth_dst=GATEWAY_MAC)
            for _ in range(segments * len(self.world[0].carrying())):
                self.fakes[1].send(segment, PORTS["c1"].number)
            self.uploads(PERIOD_S, segments=segments)

    def leaves(self, dpid: int = 1) -> set[str]:
        """Return the uplinks over which a packet of its TCP leaves."""
        return leaves(self.fakes[dpid])

    def copying(self) -> list[LogEntry]:
        """Return the decisions about copies, the newest first."""
        return [entry for entry in self.entries() if entry.copies is not None]


def leaves(fake: FakeSwitch) -> set[str]:
    packet = tcp("192.168.110.3", RELAY_ADDRESS, eth_dst=GATEWAY_MAC)
    return {UPLINKS[sent.port] for sent in fake.send(packet, PORTS["c1"].number).sent}
