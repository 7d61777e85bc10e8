# SPDX-License-Identifier: Apache-2.0
"""Mode auto: bicast while copies are worth their bytes, single otherwise, and its view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core import overrides
from controller.features.copies.manager import QUIET_S, UNHEARD_S
from controller.features.copies.packet_counts import DOWNLOADS_OVER_S, SLOW_JUDGED_S, UNREPORTED_PACKETS
from controller.features.steering.logbook import By
from controller.model.config import Mode, Site
from controller.model.decisions import Decisions
from controller.model.in_force import InForce, Known
from controller.model.overrides import Overrides
from controller.model.redundancy import COPIES, NONE, PacketUplinks
from controller.policy.copies.adaptive import TRY_S
from controller.policy.paths.uplinks import way
from controller.program.compile import compile
from controller.program.diff import Change, ModifyGroup
from controller.program.program import Program
from controller.protocol.orders import ReportEvery
from controller.protocol.reports import Role
from controller.readout.why import course
from tests.controller import relayed_site, sites
from tests.controller.copied_terminal import GATEWAY_MAC, ONE_PATH, UploadScenario, leaves
from tests.controller.features.peer_sites.test_peer_program import document as mirrored
from tests.controller.features.steering.test_manager import RELAY_ADDRESS
from tests.controller.sites import PORTS
from tests.fakes.eliminator import FakeEliminator
from tests.fakes.packet import udp
from tests.fakes.switch import FakeSwitch

LTE_IS_BARRED = {"home": frozenset({"lte"})}


def compiled(site: Site, in_force: InForce) -> Program:
    return compile(site, Known(in_force, sites.known(site).observed))


@pytest.mark.parametrize(("copies", "acting"), [(True, Mode.BICAST), (False, Mode.SINGLE)])
def test_auto_is_bicast_with_copies_and_single_without(copies: bool, acting: Mode) -> None:
    site = sites.paper_site()
    decided = InForce(Overrides({"client": Mode.AUTO, "phone": Mode.AUTO}), Decisions(copies={"client": copies}))
    itself = InForce(Overrides({"client": acting}))
    assert compiled(site, decided) == compiled(site, itself)
    over = PacketUplinks.EVERY if copies else PacketUplinks.ACTIVE
    assert way(site, site.terminals[0], decided).over is over
    assert way(site, site.terminals[1], decided).over is PacketUplinks.EVERY, "no decision exists for the phone"


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.BICAST])
def test_auto_and_bicast_are_single_if_the_other_is_barred(mode: Mode) -> None:
    site = sites.paper_site()
    barred = InForce(Overrides({"client": mode}), Decisions(barred=LTE_IS_BARRED))
    assert barred.redundancy(site, site.terminals[0]) is NONE
    on_lte = InForce(Overrides({"client": mode}, {"client": "lte"}), Decisions(barred=LTE_IS_BARRED))
    assert on_lte.redundancy(site, site.terminals[0]) is COPIES, "copies are on Wi-Fi"


# Decisions


def test_lossy_path_has_copies_within_a_second_with_a_reason() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.uploads(5)
    assert scene.leaves() == {"wifi"} and not scene.copying()
    begun = scene.now
    scene.uploads(1, loss=0.05)
    assert scene.leaves() == {"wifi", "lte"}
    (entry,) = scene.copying()
    assert entry.copies and entry.by is By.POLICY and entry.at - begun <= 1.0
    assert "wifi: 5.0% of 600 packets lost" in entry.reason and "as senders report" in entry.reason
    assert entry.gateway.done and "groups modified" in entry.gateway.answer and not entry.agents
    assert entry.reporters == ("client",)
    told = course(scene.core, "client", scene.now, 0.0)
    assert (told.copying.mode, told.copying.acting) == (Mode.AUTO, Mode.BICAST)
    assert told.decisions[0].copies and told.copying.since == entry.at
    scene.uploads(10, loss=0.2)
    assert scene.active == "wifi" and len(scene.copying()) == 1, "copies come before leaving it"


class InterleavedSwitch(FakeSwitch):
    """A packet passes between any two changes."""

    probing = False
    lost = 0

    def change(self, change: Change) -> None:
        super().change(change)
        if self.probing:
            self.lost += "wifi" not in leaves(self)


def test_decision_changes_only_groups_and_loses_no_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.controller.features.steering.test_manager.FakeSwitch", InterleavedSwitch)
    scene = UploadScenario(ONE_PATH)
    fake = scene.fakes[1]
    assert isinstance(fake, InterleavedSwitch)
    fake.probing = True
    fake.changes.clear()
    scene.uploads(1, loss=0.05)
    scene.uploads(TRY_S + 1)
    assert [entry.copies for entry in scene.copying()] == [False, True]
    assert fake.changes and set(fake.changes) == {ModifyGroup} and not fake.lost
    assert scene.installed() == scene.compiled()


@pytest.mark.parametrize("ours", [True, False])
def test_downstream_loss_begins_copies_at_both_ends_if_the_far_end_copies(ours: bool) -> None:
    scene = UploadScenario(ONE_PATH, written=mirrored() if ours else None)
    if ours:
        scene.fakes[2] = FakeSwitch(sites.PORTS, dpid=2)
        scene.connect(2)
        scene.drain()
        before = scene.installed(2)
    relay = scene.relay()
    scene.reports(relay)
    scene.sends(Role.RELAY, relay, 2, loss=0.05)
    assert [entry.copies for entry in scene.copying()] == ([True] if ours else [])
    assert not ours or scene.installed(2) == scene.compiled(2) != before


# Scope of decisions


def test_other_modes_have_no_decisions_and_auto_starts_afresh() -> None:
    scene = UploadScenario(ONE_PATH)
    for mode in (Mode.SINGLE, Mode.BICAST):
        scene.carry(overrides.mode(scene.core, "client", mode, scene.now)[1])
        scene.uploads(2, loss=0.05)
        assert not scene.core.decisions.copies and not scene.copying()
    scene.carry(overrides.mode(scene.core, "client", None, scene.now)[1])
    scene.drain()
    assert scene.leaves() == {"wifi", "lte"}
    told = course(scene.core, "client", scene.now, 0.0).copying
    assert told.reason == "no report has arrived yet to decide from"


def with_class(mode: str, port: str = "443") -> dict[str, Any]:
    written = sites.document()
    written["sites"]["home"]["classes"] = {"web": {"protocols": ["tcp"], "ports": [port]}}
    written["sites"]["home"]["terminals"]["client"]["modes"] = {"web": mode}
    return written


@pytest.mark.parametrize("mode", ["auto", "bicast"])
def test_class_in_auto_follows_the_decision_and_one_always_copied_prevents_it(mode: str) -> None:
    scene = UploadScenario(ONE_PATH, written=with_class(mode))
    site = scene.switch().site

    def acting() -> Mode:
        return scene.core.in_force.redundancy(site, site.terminals[0], "web").mode

    assert acting() is (Mode.SINGLE if mode == "auto" else Mode.BICAST)
    scene.uploads(2, loss=0.05)
    assert bool(scene.copying()) == (mode == "auto") and acting() is Mode.BICAST


def test_loss_before_a_change_of_uplink_is_no_evidence() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.uploads(1)
    for uplink in ("lte", "wifi") * 4:
        scene.switch_to(uplink)
        scene.uploads(0.25, loss=0.2)
    assert not scene.copying()


def test_decision_survives_a_restart() -> None:
    scene = UploadScenario()
    scene.uploads(TRY_S + 1)
    scene.restart()
    scene.drain()
    assert scene.leaves() == {"wifi"}
    scene.reports(scene.host)
    scene.uploads(1, loss=0.05)
    assert scene.leaves() == {"wifi", "lte"}


def test_agent_reports_four_times_a_second_only_on_one_path() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.second()
    assert asked(scene) == []
    scene.uploads(2)
    assert asked(scene) == [250]
    scene.uploads(QUIET_S + 2, segments=0)
    assert asked(scene) == [250, 1000]
    scene.uploads(2)
    assert asked(scene) == [250, 1000, 250]
    scene.uploads(2, loss=0.05)
    assert scene.leaves() == {"wifi", "lte"} and asked(scene) == [250, 1000, 250, 1000], "no urgency with copies"


def asked(scene: UploadScenario) -> list[int]:
    return [order.interval_ms for order in scene.host.orders if isinstance(order, ReportEvery)]


@pytest.mark.parametrize("relaying", [False, True])
def test_default_mode_is_single_without_a_mirrored_site(relaying: bool) -> None:
    written = relayed_site.document() if relaying else sites.document()
    del written["sites"]["home"]["terminals"]["phone"]["mode"]
    site = sites.loaded(written).sites[0]
    modes = {each.name: each.mode for each in site.terminals}
    assert modes["phone"] is Mode.SINGLE and modes["client"] is Mode.AUTO, "the client's mode is configured"
    written = mirrored()
    del written["sites"]["home"]["terminals"]["phone"]["mode"]
    assert {each.mode for each in sites.loaded(written).sites[0].terminals} == {Mode.AUTO}


def test_view_has_copied_protocols_and_packet_counts() -> None:
    scene = UploadScenario()
    scene.calls(5, segments=5)
    told = course(scene.core, "client", scene.now, 0.0).copying
    assert told.copied == ("tcp",) and told.whole
    tcp, rest = told.traffic.passed
    assert (tcp.traffic, tcp.sent, tcp.alone) == ("tcp", True, 0) and 100 <= tcp.copied <= 200
    assert (rest.traffic, rest.copied) == ("everything else", 0) and 150 <= rest.alone <= 250


# Other evidence of the active uplink


def on_wifi_by_override(in_force: InForce = ONE_PATH) -> UploadScenario:
    return UploadScenario(InForce(Overrides(active={"client": "wifi"}), in_force.decisions))


@pytest.mark.parametrize("meanwhile", ["", "another override"])
def test_dead_uplink_has_copies_until_it_recovers(meanwhile: str) -> None:
    scene = on_wifi_by_override()
    scene.uploads(1)
    scene.now += 0.1
    scene.up("wifi0", False)
    if meanwhile:
        scene.carry(overrides.active(scene.core, "phone", "wifi", scene.now)[1])
    scene.drain()
    (entry,) = scene.copying()
    assert entry.copies and entry.reason == "wifi is dead (its port is down)" and scene.leaves() == {"lte"}
    scene.uploads(2 * TRY_S)
    assert len(scene.copying()) == 1, "the port is still down"
    scene.up("wifi0", True)
    scene.uploads(TRY_S + 2)
    assert [entry.copies for entry in scene.copying()] == [False, True] and scene.leaves() == {"wifi"}


def test_dead_uplink_that_policies_leave_needs_no_copies() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.uploads(1)
    scene.up("wifi0", False)
    scene.drain()
    scene.uploads(1)
    assert scene.active == "lte" and not scene.copying() and scene.leaves() == {"lte"}


def test_failover_of_an_override_begins_copies() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.second()
    fired = scene.host.fires("client", 200)
    scene.core.overrides = replace(scene.core.overrides, active={"client": "wifi"})
    scene.tell(fired)
    scene.now += 0.1
    assert scene.core.rests_at() == scene.now
    scene.drain()
    (entry,) = scene.copying()
    assert entry.copies and "an armed failover fired after 200 ms" in entry.reason


def test_path_without_reports_has_copies_again() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.uploads(1)
    scene.leave(scene.host)
    for _ in range(int(UNHEARD_S) + 2):
        assert not scene.copying() or scene.now >= UNHEARD_S
        scene.pass_time(1)
        scene.drain()
    (entry,) = scene.copying()
    assert entry.copies and entry.reason.startswith("no agent reports losses on wifi") and len(scene.leaves()) == 2


def test_mostly_receiving_terminal_has_copies() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.uploads(5)
    scene.receives(UNHEARD_S, asks=1)
    assert not scene.copying(), "so far it may be a page"
    scene.receives(DOWNLOADS_OVER_S + 1, asks=1)
    (entry,) = scene.copying()
    assert entry.copies and entry.reason.startswith("it mostly receives") and len(scene.leaves()) == 2
    scene.receives(2 * TRY_S, asks=90)
    assert [entry.copies for entry in scene.copying()] == [False, True], "its own packets are evidence by now"
    assert scene.leaves() == {"wifi"}


def test_call_outside_agent_reports_has_copies() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.uploads(2, segments=0)
    assert scene.leaves() == {"wifi"}
    scene.calls(3)
    assert scene.core.copying.watched == {("home", "wifi")}, "probes get faster"
    scene.calls(3)
    assert not scene.core.copying.watched
    (entry,) = scene.copying()
    assert entry.copies and entry.at <= 2 + 5, "two readings of the switch, and two seconds"
    assert "packets that it sent in 3 s (calls or games, for example)" in entry.reason
    assert scene.leaves() == {"wifi", "lte"}


def test_call_beside_much_clean_tcp_has_no_copies() -> None:
    scene = UploadScenario()
    scene.calls(TRY_S + 5, segments=15)
    assert [entry.copies for entry in scene.copying()] == [False] and scene.leaves() == {"wifi"}


@pytest.mark.parametrize("does", ["calls beside some clean TCP", "mostly receives"])
def test_copies_stay_without_a_measurement_for_one_path_alone(does: str) -> None:
    scene = UploadScenario()
    if does == "mostly receives":
        scene.receives(3 * TRY_S, asks=10)
    else:
        scene.calls(2 * TRY_S, segments=3)
    assert not scene.copying() and len(scene.leaves()) == 2
    watch = scene.core.copying.watch("client")
    assert watch is not None and watch.reason.endswith("no measurement would exist for this path alone")


@pytest.mark.parametrize("per_s", [2, 5, 9])
def test_slow_udp_sender_has_copies_despite_its_agent(per_s: int) -> None:
    scene = UploadScenario(ONE_PATH)
    scene.uploads(2, segments=0)
    scene.calls(SLOW_JUDGED_S + 2, per_s=per_s)
    (entry,) = scene.copying()
    assert entry.copies and entry.at <= 2 + UNREPORTED_PACKETS / per_s + 4, (
        "enough packets, two readings and two seconds"
    )
    assert scene.leaves() == {"wifi", "lte"} and not scene.core.copying.watched, "ten probes a second are enough"


def test_dns_and_keepalives_beside_an_agent_begin_no_copies() -> None:
    scene = UploadScenario(ONE_PATH)
    for second in range(60):
        asks = 20 if second % 30 == 0 else second % 5 == 0  # the DNS queries of a page, and keepalives
        scene.calls(1, per_s=asks)
    assert not scene.copying()


def test_agent_restart_at_the_peer_site_begins_no_copies() -> None:
    scene = UploadScenario(ONE_PATH, written=mirrored())
    scene.fakes[2] = FakeSwitch(PORTS, dpid=2)
    scene.connect(2)
    far = FakeEliminator("far")
    packet = udp("192.168.110.3", RELAY_ADDRESS, eth_dst=GATEWAY_MAC)
    for second in range(30):
        if second == 20:
            scene.leave(far)
        elif second in (0, 23):
            scene.join(far)
        for _ in range(5):
            scene.fakes[1].send(packet, PORTS["c1"].number)
        if far.session in scene.hosts:
            scene.tell(far.report())
        scene.uploads(1, segments=1)
    assert not scene.copying()


def test_traffic_inside_the_site_is_no_download() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.world.clear()
    scene.connection("10.1.0.9")
    scene.receives(UNHEARD_S + DOWNLOADS_OVER_S + 5)
    assert not scene.copying() and scene.leaves() == {"wifi"}


def test_site_with_one_uplink_has_no_decisions() -> None:
    written = sites.document()
    home = written["sites"]["home"]
    del home["uplinks"]["lte"], home["subnets"]["lte-side"], home["terminals"]["phone"]
    home["terminals"]["client"]["addresses"] = home["terminals"]["client"]["addresses"][:1]
    scene = UploadScenario(written=written)
    scene.uploads(TRY_S + 2)
    assert not scene.copying() and not scene.core.decisions.copies and scene.core.copying.watch("client") is None
    assert scene.leaves() == {"wifi"}


def test_controller_restart_waits_for_agents_before_deciding() -> None:
    scene = UploadScenario(ONE_PATH)
    scene.restart()
    for _ in range(20):
        scene.second()
    assert not scene.copying() and scene.leaves() == {"wifi"}


def test_copies_stay_if_senders_cannot_see_one_path() -> None:
    scene = UploadScenario(written=with_class("bicast", "873"))
    scene.uploads(2 * TRY_S)
    assert not scene.copying() and scene.leaves() == {"wifi", "lte"}
    reason = course(scene.core, "client", scene.now, 0.0).copying.reason
    assert "no measurement would exist for this path alone" in reason
    overrides.mode(scene.core, "client", Mode.AUTO, scene.now, "web")
    scene.uploads(TRY_S)
    assert [entry.copies for entry in scene.copying()] == [False]
