# SPDX-License-Identifier: Apache-2.0
"""While one site eliminates copies, the other one copies everything, and not a moment longer."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from controller.agents.order_slot import AGAIN_AFTER_S
from controller.core import overrides
from controller.edges.agentlink import encode
from controller.features.peer_sites.manager import BELIEVED_S
from controller.model.config import Mode
from controller.model.traffic import Family, Protocol
from controller.policy.paths.arrivals import ENOUGH_ANSWERS, HOLD_S, TRIAL_S
from controller.policy.paths.health import UplinkHealth
from controller.policy.paths.uplink_choice import RETURN_AFTER_S
from controller.protocol.orders import CopyPath, Eliminate
from controller.protocol.reports import Role
from controller.protocol.switch_messages import Ask, NeighbourSeen
from controller.readout.build import snapshot
from controller.readout.why import course
from tests.controller import sites
from tests.controller.core.test_core import all_answer
from tests.controller.features.peer_sites.test_peer_program import GATEWAY_MAC, SERVER, document
from tests.controller.features.peer_sites.test_peer_program import LTE as FAR_LTE
from tests.controller.features.peer_sites.test_peer_program import SERVERS as FAR_INSIDE
from tests.controller.features.peer_sites.test_peer_program import WIFI as FAR_WIFI
from tests.controller.pair import CoreAndSwitch
from tests.controller.sites import PORTS, WIFI_HOP_MAC
from tests.fakes.eliminator import FakeEliminator
from tests.fakes.packet import Packet, advertise, arp_reply, udp
from tests.fakes.switch import FakeSwitch

HOME, FAR = 1, 2
CLIENT = "192.168.110.3"
INSIDE, WIFI, LTE = (PORTS[name].number for name in ("c1", "wifi0", "lte0"))
AT_FAR = Eliminate(
    paths=(("wifi", "wifi0", None), ("lte", "lte0", None)),
    numbered_ports=("c1",),
    window_floor_ms=200,
    window_ceiling_ms=1000,
)


class PeerSitePair(CoreAndSwitch):
    def __init__(self, written: dict[str, Any] | None = None) -> None:
        config = sites.loaded(written or document())
        super().__init__(config, [FakeSwitch(PORTS, dpid=site.dpid) for site in config.sites])
        for dpid in (HOME, FAR):
            self.connect(dpid)
        self.drain()
        for dpid in (HOME, FAR):
            all_answer(self, dpid)

    def agent(self, name: str, **more: Any) -> FakeEliminator:
        agent = FakeEliminator(name, **more)
        self.join(agent)
        self.drain()
        self.second()
        return agent

    def settle(self) -> None:
        """Wait until held-down uplinks are back."""
        for _ in range(90):
            self.second()

    def leaves_home(self) -> set[int]:
        return self._leaves(HOME, udp(CLIENT, SERVER, eth_dst="08:00:27:f9:49:62"), INSIDE)

    def leaves_far(self) -> set[int]:
        return self._leaves(FAR, udp(SERVER, CLIENT, eth_dst=GATEWAY_MAC), FAR_INSIDE)

    def _leaves(self, dpid: int, packet: Packet, port: int) -> set[int]:
        return {sent.port for sent in self.fakes[dpid].send(packet, port).sent}

    @property
    def home(self) -> int:
        session = self.switch(HOME).session
        assert session is not None
        return session

    def active(self) -> dict[str, str]:
        site = self.core.config.sites[0]
        return {each.name: self.core.in_force.active_uplink(site, each) for each in site.terminals}

    def view(self, name: str) -> Any:
        gateways = snapshot(self.core, "gateway.yaml", "1.2.0", self.now, 0.0).gateways
        return next(one for one in gateways if one.name == name)

    def copies_view(self, name: str) -> Any:
        return self.view(name).copies

    def tunnel(self, name: str, uplink: str) -> Any:
        return next(each.tunnel for each in self.view(name).uplinks if each.name == uplink)


def test_other_end_copies_everything_once_an_agent_eliminates() -> None:
    ends = PeerSitePair()
    assert (ends.leaves_home(), ends.leaves_far()) == ({WIFI}, {FAR_WIFI})
    agent = ends.agent("far")
    assert agent.orders == [AT_FAR]
    assert (ends.leaves_home(), ends.leaves_far()) == ({WIFI, LTE}, {FAR_WIFI})
    ends.agent("home")
    assert (ends.leaves_home(), ends.leaves_far()) == ({WIFI, LTE}, {FAR_WIFI, FAR_LTE})
    assert [told.eliminated for told in (ends.copies_view("home"), ends.copies_view("far"))] == [True, True]
    assert ends.copies_view("home").copied == ("all",)


def test_copying_lasts_from_the_agents_confirmation_until_it_leaves() -> None:
    ends = PeerSitePair()
    agent = FakeEliminator("far")
    for _ in range(2):
        ends.join(agent)
        ends.drain()
        assert ends.leaves_home() == {WIFI}
        assert ends.copies_view("far").reason == "the agent far has not confirmed recently that it eliminates copies"
        ends.second()
        assert ends.leaves_home() == {WIFI, LTE}
        ends.leave(agent)
        ends.drain()
        assert ends.leaves_home() == {WIFI}
        assert "no gateway agent enrolled as far is connected" in ends.copies_view("far").reason


def test_silent_agent_is_trusted_less_long_than_its_lease() -> None:
    ends = PeerSitePair()
    ends.agent("far")
    for _ in range(3):
        ends.pass_time(0.9)
        ends.drain()
    assert ends.leaves_home() == {WIFI}


@pytest.mark.parametrize("at", ["first", "later"])
def test_port_without_a_program_is_named_and_ordered_again(at: str) -> None:
    ends = PeerSitePair()
    agent = FakeEliminator("far") if at == "first" else ends.agent("far")
    agent.gone["lte0"] = "there is no network device lte0 here"
    if at == "first":
        ends.join(agent)
        ends.drain()
    ends.second()
    assert ends.leaves_home() == {WIFI}
    assert ends.copies_view("far").reason == "lte0: there is no network device lte0 here"
    for _ in range(int(AGAIN_AFTER_S) + 1):
        ends.second()
    assert agent.orders == [AT_FAR, AT_FAR]
    agent.gone.clear()
    ends.second()
    assert ends.leaves_home() == {WIFI, LTE}


def test_incapable_agent_gets_no_order_and_gives_the_reason() -> None:
    ends = PeerSitePair()
    agent = ends.agent("far", unable="the kernel does not take the program")
    assert agent.orders == [] and ends.copies_view("far").reason == "the kernel does not take the program"
    assert ends.leaves_home() == {WIFI}


@pytest.mark.parametrize(("name", "role"), [("elsewhere", Role.GATEWAY), ("far", Role.TERMINAL)])
def test_other_agents_get_no_order(name: str, role: Role) -> None:
    ends = PeerSitePair()
    assert ends.agent(name, role=role).orders == []
    assert ends.leaves_home() == {WIFI}


def test_configured_protocols_are_copied_regardless() -> None:
    written = document()
    written["sites"]["home"]["bicast"] = ["tcp", "icmp"]
    ends = PeerSitePair(written)
    ends.agent("far")
    assert ends.copies_view("far").eliminated and ends.leaves_home() == {WIFI}


def test_site_without_a_peer_does_not_eliminate() -> None:
    written = document()
    del written["sites"]["far"]["mirrors"]
    ends = PeerSitePair(written)
    assert ends.agent("far").orders == [] and ends.copies_view("far") is None


def test_reconfiguration_updates_the_order_and_ends_elimination() -> None:
    ends = PeerSitePair()
    agent = ends.agent("far")
    assert ends.core.decisions.eliminating == {"far"}
    written = document()
    written["sites"]["far"]["copies"] = {"window_ceiling_ms": "300"}
    ends.carry(ends.core.reconfigure(sites.loaded(written), ends.now))
    ends.second()
    ends.second()
    assert agent.orders[1:] == [replace(AT_FAR, window_ceiling_ms=300)] and ends.leaves_home() == {WIFI, LTE}
    del written["sites"]["far"]["mirrors"]
    ends.carry(ends.core.reconfigure(sites.loaded(written), ends.now))
    assert ends.core.decisions.eliminating == frozenset(), "stored at once: a restart would trust the old state"
    ends.second()
    ends.second()
    assert agent.orders[2:] == [Eliminate()] and ends.leaves_home() == {WIFI}


def test_order_has_the_configured_mac_of_an_uplink() -> None:
    """The bridge accepts no packet for another MAC, so the agent must not remember one."""
    written = document()
    written["sites"]["far"]["uplinks"]["wifi"]["mac"] = "02:00:00:00:00:77"
    order = replace(AT_FAR, paths=(CopyPath("wifi", "wifi0", "02:00:00:00:00:77"), CopyPath("lte", "lte0", None)))
    assert PeerSitePair(written).agent("far").orders == [order]
    word = encode.directive(2, order).directive
    assert [path.mac for path in word.eliminate.paths] == ["02:00:00:00:00:77", ""]


def test_elimination_is_assumed_after_a_restart_for_a_while() -> None:
    ends = PeerSitePair()
    agent = ends.agent("far")
    sent = {dpid: sum(fake.changes.values()) for dpid, fake in ends.fakes.items()}
    ends.restart()
    ends.drain()
    for dpid in (HOME, FAR):
        all_answer(ends, dpid)
    assert ends.leaves_home() == {WIFI, LTE}
    ends.second()
    assert agent.order == AT_FAR and ends.leaves_home() == {WIFI, LTE}
    assert sent == {dpid: sum(fake.changes.values()) for dpid, fake in ends.fakes.items()}, "no switch got a change"


def test_elimination_ends_if_its_agent_does_not_return() -> None:
    ends = PeerSitePair()
    ends.leave(ends.agent("far"))
    ends.core.decisions = replace(ends.core.decisions, eliminating=frozenset({"far"}))
    ends.restart()
    ends.drain()
    assert ends.switch(HOME).site.bicast.protocols == ()
    ends.pass_time(BELIEVED_S)
    assert ends.switch(HOME).site.bicast.protocols == (Protocol.TCP,)


def deliver(ends: PeerSitePair, agent: FakeEliminator, *uplinks: str) -> None:
    """Let everything that the terminals sent within a second arrive over these uplinks."""
    for name in uplinks:
        agent.brings(name, first=50 if name == uplinks[0] else 0, eliminated=0 if name == uplinks[0] else 50)
    ends.second()


def silent_wifi(written: dict[str, Any] | None = None) -> tuple[PeerSitePair, FakeEliminator]:
    """Return both ends, the agent of far, and a second in which Wi-Fi delivered no copies."""
    ends = PeerSitePair(written)
    return ends, silence_wifi(ends)


def silence_wifi(ends: PeerSitePair) -> FakeEliminator:
    agent = ends.agent("far")
    deliver(ends, agent, "wifi", "lte")
    deliver(ends, agent, "lte")
    return agent


def test_silent_uplink_is_named_within_two_reports_and_left() -> None:
    ends, agent = silent_wifi()
    (silent,) = ends.copies_view("far").silent
    assert silent.uplink == "wifi" and "while 50 packets arrived over others" in silent.reason
    assert ends.active() == {"client": "lte", "phone": "lte"}
    deliver(ends, agent, "lte", "wifi")
    assert ends.copies_view("far").silent == ()


def test_decision_names_the_reporting_gateway_agent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ends, agent = silent_wifi()
    (left,) = ends.core.steering.logbook.entries("client")
    assert left.uplink == "lte" and left.reporters == ("far",)
    assert course(ends.core, "client", ends.now, 0.0).decisions[0].reporters == ("far",)
    assert any("from wifi to lte" in line and line.endswith("; reported by far") for line in caplog.messages)
    for _ in range(int(RETURN_AFTER_S) + 3):
        deliver(ends, agent, "lte", "wifi")
    returned, _ = ends.core.steering.logbook.entries("client")
    assert returned.uplink == "wifi" and returned.reporters == ("far",), returned.reason
    assert ends.active() == {"client": "wifi", "phone": "lte"}, "each terminal is back on its default"


def test_uplink_with_unidentified_packets_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = PeerSitePair()
    agent = ends.agent("far")

    def bring(unidentified: int) -> Any:
        for _ in range(12):
            agent.brings("wifi", first=100, unidentified=unidentified)
            agent.brings("lte", eliminated=100)
            ends.second()
        return ends.copies_view("far").unidentified

    (merged,) = bring(5)
    assert merged.uplink == "wifi" and "5% of" in merged.reason
    assert [line for line in caplog.messages if "GRO" in line] == [f"far: wifi: {merged.reason}"]
    assert bring(0) == ()
    assert bring(5) and ends.copies_view("home").unidentified == ()
    ends.leave(agent)
    assert ends.copies_view("far").unidentified == ()


def test_uplink_is_not_silent_while_one_class_is_not_copied() -> None:
    written = document()
    written["sites"]["home"]["classes"] = {"backup-job": {"protocols": ["tcp"], "ports": ["873"]}}
    ends = PeerSitePair(written)
    agent = ends.agent("far")
    deliver(ends, agent, "lte")
    _, effects = overrides.mode(ends.core, "phone", Mode.SINGLE, ends.now, "backup-job")
    ends.carry(effects)
    deliver(ends, agent, "lte")
    deliver(ends, agent, "lte")
    assert ends.copies_view("far").silent == ()
    _, effects = overrides.mode(ends.core, "phone", None, ends.now, "backup-job")
    ends.carry(effects)
    for _ in range(3):
        deliver(ends, agent, "lte")
    assert ends.copies_view("far").silent


def test_downed_port_is_not_reported_as_silent() -> None:
    ends = PeerSitePair()
    agent = ends.agent("far")
    deliver(ends, agent, "wifi", "lte")
    ends.up("wifi0", False, HOME)
    deliver(ends, agent, "lte")
    deliver(ends, agent, "lte")
    assert ends.copies_view("far").silent == ()


def test_alarm_ends_with_its_agent_and_stays_during_an_override() -> None:
    ends = PeerSitePair()
    ends.carry(overrides.active(ends.core, "client", "wifi", ends.now)[1])
    agent = silence_wifi(ends)
    assert ends.active()["client"] == "wifi" and ends.copies_view("far").silent
    ends.leave(agent)
    assert ends.copies_view("far").silent == ()
    assert ends.core.steering.steered["client"].paths["wifi"].health is UplinkHealth.UNKNOWN


def test_silent_uplink_gets_no_copies_until_its_trial() -> None:
    ends = PeerSitePair()
    agents = {name: ends.agent(name) for name in ("home", "far")}
    deliver(ends, agents["far"], "wifi", "lte")
    deliver(ends, agents["far"], "lte")
    assert (ends.leaves_home(), ends.leaves_far()) == ({LTE}, {FAR_LTE})
    for _ in range(int(HOLD_S) + 1):
        deliver(ends, agents["far"], "lte")
    assert (ends.leaves_home(), ends.leaves_far()) == ({WIFI, LTE}, {FAR_WIFI, FAR_LTE}), "on trial"
    for _ in range(int(TRIAL_S) + 1):
        deliver(ends, agents["far"], "lte")
    assert (ends.leaves_home(), ends.leaves_far()) == ({LTE}, {FAR_LTE}), "after a failed trial"


def test_last_uplink_is_never_screened() -> None:
    ends, _ = silent_wifi()
    ends.up("lte0", False, HOME)
    ends.drain()
    assert ends.leaves_home() == {WIFI}


@pytest.mark.parametrize("macs", ["learned", "written"])
@pytest.mark.parametrize("end", [HOME, FAR])
@pytest.mark.parametrize("family", Family)
def test_screened_next_hop_is_asked_until_it_answers(macs: str, end: int, family: Family) -> None:
    ends = PeerSitePair(next_hops() if macs == "learned" else next_hops(mac=WIFI_HOP_MAC))
    agent = ends.agent("far")
    for _ in range(3):
        deliver(ends, agent, "wifi", "lte")
    deliver(ends, agent, "lte")
    programs = [fake.installed().program for fake in ends.fakes.values()]
    for answers in range(ENOUGH_ANSWERS):
        assert ends.leaves_home() == {LTE}, f"after {answers} answers"
        before = len(ends.asked)
        ends.pass_time(1.0)
        ends.drain()
        line = (ends.switch(end).session, PORTS["wifi0"].number)
        asked = [each for each in ends.asked[before:] if (each.session, each.out_port) == line]
        deliver_answer(ends, end, next(each for each in asked if Family.of(each.target) is family), WIFI_HOP_MAC)
    ends.pass_time(0.1)
    ends.drain()
    assert ends.leaves_home() == {WIFI, LTE}
    assert programs != (now := [fake.installed().program for fake in ends.fakes.values()])
    assert [one.flows for one in programs] == [one.flows for one in now], "only groups were changed"


def test_answer_from_another_mac_or_neighbour_does_not_end_screening() -> None:
    ends, _ = silent_wifi(next_hops(mac=WIFI_HOP_MAC))
    for _ in range(ENOUGH_ANSWERS):
        before = len(ends.asked)
        ends.pass_time(1.0)
        ends.drain()
        for each in ends.asked[before:]:
            if (each.session, each.out_port) == (ends.home, WIFI):
                deliver_answer(ends, HOME, each, "0a:00:00:00:00:66")
        for name, address in sites.learned(ends.switch(HOME).site):
            ends.tell(NeighbourSeen(ends.home, PORTS[name].number, address, "08:00:27:00:00:09"))
        ends.pass_time(0.1)
        ends.drain()
        assert ends.leaves_home() == {LTE}
    assert not [port for port, _ in ends.switch(HOME).observed.macs if port == "wifi0"]


def deliver_answer(ends: PeerSitePair, dpid: int, asked: Ask, mac: str) -> None:
    """Deliver the answer to the core if the switch punts it."""
    answer = arp_reply if Family.of(asked.target) is Family.IPV4 else advertise
    packet = answer(str(asked.target), str(asked.source), eth_src=mac, eth_dst=asked.source_mac)
    for _ in ends.fakes[dpid].send(packet, asked.out_port).punted:
        ends.tell(NeighbourSeen(asked.session, asked.out_port, asked.target, mac))


def next_hops(**more: str) -> dict[str, Any]:
    """Return a document with next hops whose MACs are learned or configured."""
    written = document()
    for site in written["sites"].values():
        for uplink in site["uplinks"].values():
            uplink["next_hops"] = [{"address": hop["address"], **more} for hop in uplink["next_hops"]]
    return written
