# SPDX-License-Identifier: Apache-2.0
"""Wi-Fi without incoming packets is left for LTE from the switch's counters alone, without an agent or a peer site."""

from __future__ import annotations

import pytest

from controller.model.in_force import InForce
from controller.model.traffic import Protocol
from controller.policy.paths.health import UplinkHealth
from controller.policy.paths.uplink_choice import RETURN_AFTER_S
from controller.protocol.switch_messages import FarAnswered, NeighbourSeen
from controller.readout.why import course
from tests.controller import sites
from tests.controller.features.steering.test_manager import RELAY_ADDRESS, WIFI, SteeringScenario
from tests.controller.sites import LTE_HOP_MAC, PORTS, WIFI_HOP_MAC
from tests.fakes.packet import udp

GATEWAY_MAC, WIFI_MAC = "08:00:27:f9:49:62", "08:00:27:81:6b:cf"
BEYOND = "203.0.113.5"
MACS = {PORTS["wifi0"].number: WIFI_HOP_MAC, PORTS["lte0"].number: LTE_HOP_MAC}


class CallScenario(SteeringScenario):
    """A call of 50 packets a second, which no agent reports. Next hops answer over each uplink that delivers."""

    def __init__(self, mode: str = "single", reach: tuple[str, ...] = ()) -> None:
        written = sites.document()
        if reach:
            written["sites"]["home"]["reach"] = list(reach)
        del written["sites"]["home"]["uplinks"]["wifi"]["next_hops"][0]["mac"]
        super().__init__(InForce(), mode, written)
        self.brings = {"wifi0", "lte0"}
        self.forwards = {"wifi0", "lte0"}  # uplinks that forward beyond the next hop
        self.answers = {Protocol.ICMP, Protocol.UDP}  # what the address beyond answers

    def talks(self, seconds: float) -> None:
        """Run a call in both directions, in steps of 0.1 s."""
        for step in range(round(10 * seconds)):
            for _ in range(5):
                self.fakes[1].send(udp(WIFI, RELAY_ADDRESS, eth_dst=GATEWAY_MAC), PORTS["c1"].number)
                if "wifi0" in self.forwards:
                    self.fakes[1].send(udp(RELAY_ADDRESS, WIFI, eth_dst=WIFI_MAC), PORTS["wifi0"].number)
            self.now += 0.1
            if step % 10 == 9:
                self.pass_time(0.0)
            self.drain()
            self._answers()

    def _answers(self) -> None:
        asked, self.asked = self.asked, []
        for ask in asked:
            name = next(name for name, port in PORTS.items() if port.number == ask.out_port)
            if name in self.brings and ask.out_port in MACS:
                self.tell(NeighbourSeen(ask.session, ask.out_port, ask.target, MACS[ask.out_port]))
                self.drain()
        asked_far, self.asked_far = self.asked_far, []
        for ask in asked_far:
            name = next(name for name, port in PORTS.items() if port.number == ask.out_port)
            if name in self.forwards and ask.protocol in self.answers:
                self.tell(FarAnswered(ask.session, ask.out_port, ask.target, ask.number))


@pytest.mark.parametrize("mode", ["single", "bicast", "auto"])
def test_silent_uplink_is_left_within_7_s_and_used_again_when_it_recovers(mode: str) -> None:
    scene = CallScenario(mode)
    scene.talks(5)
    assert scene.active == "wifi"
    scene.brings.remove("wifi0")
    scene.forwards.remove("wifi0")
    scene.talks(7)
    assert scene.active == "lte" and scene.gateway_is_on("lte") and scene.health("wifi") is UplinkHealth.DEAD
    reason = course(scene.core, "client", scene.now, 0.0).uplinks[0].reason
    assert "no packets return over it" in reason and "packets left over it" in reason
    scene.brings.add("wifi0")
    scene.forwards.add("wifi0")
    scene.talks(RETURN_AFTER_S + 5)
    assert scene.active == "wifi"


@pytest.mark.parametrize("unanswered", [None, Protocol.ICMP, Protocol.UDP])
def test_dead_uplink_with_a_live_router_is_left_within_3_s(unanswered: Protocol | None) -> None:
    scene = CallScenario(reach=(BEYOND,))
    scene.answers.discard(unanswered)
    scene.talks(5)
    assert scene.active == "wifi"
    scene.forwards.remove("wifi0")
    scene.talks(3)
    assert scene.active == "lte" and scene.gateway_is_on("lte")
    reason = scene.entries()[-1].reason
    assert f"{BEYOND} answered 0 of 4 questions over it" in reason and "over lte" in reason
    scene.forwards.add("wifi0")
    scene.talks(RETURN_AFTER_S + 6)
    assert scene.active == "wifi"
