# SPDX-License-Identifier: Apache-2.0
"""Copies over a metered uplink: the switch counts them, they end before the budget is used up, and no other packet
is affected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.agents.agent import Agent
from controller.core import overrides
from controller.features.copies.metered_uplinks import PARTS, Budgets, _rate
from controller.model.config import Mode
from controller.model.decisions import Decisions
from controller.model.in_force import CopyRateLimit, InForce, Known
from controller.model.overrides import Overrides
from controller.policy.copies.budget import Moment
from controller.program.compile import compile
from controller.program.diff import ModifyGroup, ModifyMeter
from controller.program.metering import counted
from controller.program.program import METER_IDS
from controller.program.readback import remembered
from controller.program.render import Unwritten, known_from_file
from controller.protocol.orders import Tickets
from controller.protocol.reports import (
    AgentOpened,
    Cost,
    InterfaceCounters,
    PathManager,
    Reported,
    Role,
)
from controller.protocol.requests import Impossible, UnknownUplink
from controller.readout.build import snapshot
from controller.readout.why import course
from tests.controller import sites
from tests.controller.copied_terminal import UploadScenario
from tests.controller.features.peer_sites.test_peer_program import document as mirrored
from tests.controller.features.peer_sites.test_tunnels import tunnelled
from tests.controller.program.test_compile import (
    C1,
    LTE,
    WIFI,
    from_client,
    leaves,
    switch_with,
)
from tests.controller.sites import PORTS
from tests.fakes.switch import FakeSwitch

BUDGET = 1_000_000
PACKET = 1000
LARGE = replace(from_client(), size=PACKET)
NOON = 1_795_345_200.0


def metered(written: dict[str, Any] | None = None, **limits: str) -> dict[str, Any]:
    written = written or sites.document()
    written["sites"]["home"]["uplinks"]["lte"] |= limits or {"budget": "1MB/day"}
    return written


def known(active: dict[str, str] | None = None) -> Known:
    site = sites.loaded(metered()).sites[0]
    return replace(sites.known(site, active=active), rates={"lte": CopyRateLimit(1000, 1000)})


def switch(active: dict[str, str] | None = None) -> FakeSwitch:
    return switch_with(known(active), sites.loaded(metered()).sites[0])


# The switch


def test_exhausted_meter_stops_only_copies() -> None:
    for active, primary in (("wifi", WIFI), ("lte", LTE)):
        one = switch({"client": active})
        one.exhausted.add(METER_IDS[1])
        left = set(leaves(one, from_client(), C1))
        assert left == ({primary} if active == "wifi" else {WIFI, LTE}), "packets on the active uplink are no copies"


def three_uplinks(in_force: InForce, rates: dict[str, CopyRateLimit] | None = None) -> FakeSwitch:
    """Return the site with a third uplink, at port 9, whose copies have no limits."""
    written = metered()
    hop = {"address": "192.168.30.1", "mac": "02:00:00:00:00:5a"}
    third = {"port": "sat0", "addresses": ["192.168.30.2/24"], "next_hops": [hop]}
    written["sites"]["home"]["uplinks"]["sat"] = third
    site = sites.loaded(written).sites[0]
    ports = PORTS | {"sat0": replace(PORTS["lte0"], number=9)}
    observed = replace(sites.known(site).observed, ports=ports)
    return FakeSwitch(ports).load(compile(site, Known(in_force, observed, rates=rates or {})))


def test_exhausted_meter_does_not_affect_an_unlimited_uplink() -> None:
    one = three_uplinks(InForce(), {"lte": CopyRateLimit(1000, 1000)})
    assert set(leaves(one, from_client(), C1)) == {WIFI, LTE, 9}
    one.exhausted.add(METER_IDS[1])
    assert set(leaves(one, from_client(), C1)) == {WIFI, 9}
    barred = three_uplinks(InForce(decisions=Decisions(barred={"home": frozenset({"lte"})})))
    assert set(leaves(barred, from_client(), C1)) == {WIFI, 9}


@pytest.mark.parametrize(("remote", "outer"), [("203.0.113.9", 116), ("2001:db8::9", 136)])
def test_tunnel_copies_count_with_their_encapsulation(remote: str, outer: int) -> None:
    for limits in ({"budget": "1MB/day"}, {"max_share": "0.5"}):
        written = metered(tunnelled(), **limits)
        for uplink in written["sites"]["home"]["uplinks"].values():
            uplink["remote"] = remote
        site = sites.loaded(written).sites[0]
        known = replace(sites.known(site), rates={"lte": CopyRateLimit(1000, 1000)})
        one = switch_with(known, site)
        for _ in range(3):
            one.send(LARGE, C1)
        assert counted(site, one.installed())["lte"].passed_bytes == 3 * (PACKET + outer)


def test_macs_are_read_back_from_metered_groups() -> None:
    site = sites.loaded(metered()).sites[0]
    again = remembered(site, PORTS, switch().groups)
    assert again == known().observed.macs or set(known().observed.macs.items()) <= set(again.items())


def test_program_without_a_controller_has_no_budget() -> None:
    written = {"sites": {"big": sites.many(1)}}
    written["sites"]["big"]["uplinks"]["up2"]["max_share"] = "0.5"
    with pytest.raises(Unwritten, match="only a controller can enforce the budget of uplink up2"):
        known_from_file(sites.loaded(written).sites[0])


# Accounting


class MeteredUplink(UploadScenario):
    def __init__(self, mode: str = "bicast", in_force: InForce | None = None, **limits: str) -> None:
        self.day = "2026-11-22"
        super().__init__(in_force, mode, metered(None, **limits))
        self.lives(1)

    def lives(self, seconds: int, packets: int = 0, dpids: tuple[int, ...] = (1,)) -> None:
        """Send this many packets of PACKET bytes a second, and read the counters."""
        for _ in range(seconds):
            for _ in range(packets):
                self.fakes[1].send(LARGE, C1)
            self.set_time()
            self.pass_time(1.0)
            self.drain()

    def set_time(self) -> None:
        self.core.set_time(Moment(NOON + self.now, self.day, NOON + 3600, 3600), self.now)

    def connect(self, dpid: int = 1) -> int:
        """Connect the switch after the core knows the date."""
        self.set_time()
        self.pass_time(0.0)
        return super().connect(dpid)

    @property
    def by_lte(self) -> int:
        counters = self.fakes[1].installed().port_counters[LTE]
        return counters.sent.bytes

    def budget_reason(self) -> str:
        return course(self.core, "client", self.now, 0.0).copying.reason


@pytest.mark.parametrize("mode", ["bicast", "auto"])
def test_copies_end_before_the_budget_is_used_up_and_change_no_flow(mode: str) -> None:
    scene = MeteredUplink(mode)
    scene.fakes[1].changes.clear()
    scene.lives(40, packets=30)
    assert 0.8 * BUDGET < scene.by_lte <= BUDGET and scene.leaves() == {"wifi"}
    assert set(scene.fakes[1].changes) == {ModifyGroup, ModifyMeter} and scene.installed() == scene.compiled()
    assert scene.fakes[1].changes[ModifyMeter] < 12, "less than one a second"
    (entry,) = scene.copying()
    assert not entry.copies and entry.reason.startswith("lte: used up until ")
    assert f"of {BUDGET / 1e6:.1f} MB for this day" in scene.budget_reason()
    assert scene.core.overrides.mode(scene.switch().site.terminals[0]) == mode
    (home,) = snapshot(scene.core, "gateway.yaml", "1.2.0", scene.now, 0.0).gateways
    (told,) = (uplink.budget for uplink in home.uplinks if uplink.budget is not None)
    assert told.used_bytes == scene.by_lte and (told.barred or "").startswith("used up until ")
    scene.day = "2026-11-23"
    scene.lives(2)
    if mode == "bicast":
        assert scene.leaves() == {"wifi", "lte"} and [each.copies for each in scene.copying()] == [True, False]


def test_usage_and_a_used_up_budget_survive_a_restart_until_raised() -> None:
    scene = MeteredUplink()
    scene.lives(10, packets=30)
    scene.core.keep_used(scene.now)
    for _ in range(300):
        scene.fakes[1].send(LARGE, C1)  # counted only after the restart
    scene.restart()
    scene.lives(3)
    account = scene.core.budgets.account("home", "lte")
    assert account is not None and account.used.bytes == scene.by_lte == 600 * PACKET
    scene.lives(30, packets=30)
    scene.core.keep_used(scene.now)
    scene.restart()
    scene.lives(2)
    assert scene.leaves() == {"wifi"}
    raised = sites.loaded(metered(budget="10MB/day"))
    scene.carry(scene.core.reconfigure(raised, scene.now))
    scene.lives(2)
    assert "used up" not in scene.budget_reason()


def test_budget_reset_restores_copies_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    scene = MeteredUplink()
    scene.day = "2035-11-16"
    scene.lives(40, packets=30)
    scene.day = "2026-11-22"  # right again, without a confirmation by NTP
    scene.lives(2)
    assert scene.leaves() == {"wifi"} and "until the clock is past 2035-11-16" in scene.budget_reason()
    with caplog.at_level("INFO"):
        answer, effects = overrides.used_set(scene.core, "home", "lte", 0, scene.now)
    scene.carry(effects)
    scene.lives(2)
    assert scene.leaves() == {"wifi", "lte"} and answer.changed and answer.messages > 0
    assert "the budget was set on request: lte of home has used nothing of its budget" in caplog.text
    scene.restart()
    scene.lives(2)
    assert scene.leaves() == {"wifi", "lte"}, "a restart does not restore the old count"


def test_budget_reset_is_undone() -> None:
    scene = MeteredUplink()
    scene.lives(40, packets=30)
    assert scene.leaves() == {"wifi"}
    for used_bytes, used_uplinks in ((0, {"wifi", "lte"}), (BUDGET, {"wifi"})):
        answer, effects = overrides.used_set(scene.core, "home", "lte", used_bytes, scene.now)
        scene.carry(effects)
        scene.lives(2)
        assert scene.leaves() == used_uplinks and answer.changed


def test_budget_reset_of_an_unknown_uplink_lists_the_known_ones() -> None:
    core = MeteredUplink().core
    with pytest.raises(UnknownUplink, match="no gateway is named 'shed'; there are: home"):
        overrides.used_set(core, "shed", "lte", 0, 0.0)
    with pytest.raises(UnknownUplink, match="home has no uplink named 'dsl'; it has: wifi, lte"):
        overrides.used_set(core, "home", "dsl", 0, 0.0)
    with pytest.raises(Impossible, match="uplink wifi of home has no budget"):
        overrides.used_set(core, "home", "wifi", 0, 0.0)


def test_copies_above_their_share_pause() -> None:
    scene = MeteredUplink(max_share="0.25")
    scene.lives(30, packets=100)
    assert scene.leaves() == {"wifi"} and "the limit is 25%" in scene.copying()[-1].reason


def test_copies_of_both_ends_count_once() -> None:
    written = metered(mirrored())
    scene = UploadScenario(mode="bicast", written=written)
    scene.fakes[2] = FakeSwitch(PORTS, dpid=2)
    scene.connect(2)
    scene.drain()
    for second in range(20):
        for _ in range(20):
            scene.fakes[1].send(LARGE, C1)
        scene.core.set_time(Moment(NOON + second, "2026-11-22", NOON + 3600, 0), scene.now)
        scene.pass_time(1.0)
        scene.drain()
    account = scene.core.budgets.account("home", "lte")
    assert account is not None and 19 * 20 * PACKET <= account.used.bytes <= 20 * 20 * PACKET
    assert scene.switch(2).rates == scene.switch(1).rates != {}
    assert scene.fakes[2].meters


def test_interface_below_a_tunnel_counts_for_its_uplink() -> None:
    written = tunnelled()
    assert written["sites"]["home"]["uplinks"]["wifi"]["device"] == "wlan0"
    written["sites"]["home"]["uplinks"]["wifi"]["budget"] = "1MB/month"
    budgets = Budgets(sites.loaded(written), {})
    budgets.set_time(Moment(NOON, "2026-11-22", NOON + 3600, 0))
    opened = (
        AgentOpened(at, name, "", Role.GATEWAY, PathManager.KERNEL, "", (), ())
        for at, name in ((1, "home"), (2, "far"))
    )
    agents = {each.session: Agent(each, Tickets(), 0.0) for each in opened}
    for session, total in ((1, 5_000_000), (2, 9_000_000), (1, 5_900_000), (2, 19_000_000), (2, 29_000_000)):
        some = tuple(InterfaceCounters(each, total // 2, total // 2) for each in ("wlan0", "eth0"))
        budgets.on_event(Reported(session, 1, 1000, (), Cost(0, 0), interfaces=some), agents[session])
    account = budgets.account("home", "wifi")
    assert account is not None and account.used.bytes == 900_000, "home's wlan0 alone"
    assert budgets.nearly("home", "wifi") == "nearly used up until 2026-12-01: 0.9 of 1.0 MB for this month"


@given(left=st.integers(1, 10**15))
def test_rate_limit_leaves_budget_until_the_next_reading(left: int) -> None:
    rate = _rate(left)
    assert max(rate.kbps, rate.burst_kbits) * 1000 < 1 << 32, "OpenFlow or the switch cannot represent it"
    if left >= PARTS * 2000:
        a_second, burst = rate.kbps * 125, rate.burst_kbits * 125
        assert 2 * (3 * burst + 3 * a_second) <= left, "at both ends, over three intervals of readings"


def test_dropped_copies_do_not_count() -> None:
    scene = MeteredUplink()
    scene.lives(5, packets=30)
    scene.fakes[1].exhausted.add(METER_IDS[1])
    scene.lives(5, packets=30)
    account = scene.core.budgets.account("home", "lte")
    assert account is not None and 120 * PACKET <= account.used.bytes <= 150 * PACKET


uplinks = st.sampled_from(["wifi", "lte"])
some = st.frozensets(uplinks)


@settings(max_examples=40)
@given(mode=st.sampled_from(list(Mode)), active=uplinks, barred=some, screened=some, down=some, dry=st.booleans())
def test_budget_never_changes_where_a_packet_must_leave(
    mode: Mode, active: str, barred: frozenset[str], screened: frozenset[str], down: frozenset[str], dry: bool
) -> None:
    written = metered()
    written["sites"]["home"]["uplinks"]["wifi"]["max_share"] = "0.5"
    limited, free = sites.loaded(written).sites[0], sites.paper_site()
    ports = {name: replace(port, up=name.removesuffix("0") not in down) for name, port in PORTS.items()}
    observed = replace(sites.known(free).observed, ports=ports)
    wishes = Overrides({"client": mode}, {"client": active})
    left = []
    for site, in_force in ((free, InForce(wishes)), (limited, InForce(wishes, Decisions(barred={"home": barred})))):
        one = FakeSwitch(ports).load(compile(site, Known(in_force, observed, screened)))
        if dry:
            one.exhausted |= set(one.meters)
        left.append(set(leaves(one, from_client(), C1)))
    without, within = left
    assert within <= without or (mode in (Mode.BICAST, Mode.AUTO) and len(within) == 1)
    assert bool(within) == bool(without), "a budget never drops it"
    primary = WIFI if active == "wifi" else LTE
    assert primary not in without or primary in within or (len(without) > 1 and screened)
