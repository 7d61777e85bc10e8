# SPDX-License-Identifier: Apache-2.0
"""A query for the relay of a destination starts missing measurements and shows the choice."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from controller.agents.order_slot import AGAIN_AFTER_S
from controller.edges.runtime import service
from controller.edges.state.store import Store
from controller.features.relays import readout, requests
from controller.features.relays.requests import DestinationQuery, RelayTrial
from controller.model.overrides import RelayOverride
from controller.model.relaying import Choosing, Fallback
from controller.protocol.orders import AgentEffect, Direct, MeasureDistances
from controller.protocol.reports import InterceptionReport, RelayReached, Reported
from controller.protocol.requests import Impossible, UnknownRelay
from controller.protocol.switch_messages import Effect
from tests.controller import relayed_site
from tests.controller.features.relays.test_manager import RELAYS, RelayedHome, credential, started
from tests.fakes.relays import FakeGateway, FakeRelay, Internet

DEST = ip_address("45.0.30.9")
FAR = {("home", str(DEST)): 200, ("home", RELAYS["oslo"]): 100, ("oslo", str(DEST)): 100, ("home", RELAYS["tokyo"]): 50}


def asks(world: RelayedHome, anew: bool = False) -> DestinationQuery:
    asked = DestinationQuery(world.core.relays, DEST, None, anew, world.now)
    world.carry(world.core.relays.tend(world.core.in_force, world.now))
    world.drain()
    return asked


@pytest.mark.parametrize("method", [Choosing.NEAREST, Choosing.PREDICTED])
def test_query_measures_missing_legs_and_shows_alternatives(method: Choosing) -> None:
    world = started(choose=method)
    world.internet.rtt_ms = dict(FAR)
    asked = asks(world)
    assert not asked.inquiry.answered and world.home.measurements
    world.measure()
    assert asked.inquiry.answered
    (told,) = asked.result(world.now)
    assert told.choice is not None and told.choice.method is method and told.prefix == "45.0.30.0/24"
    assert {(leg.start, leg.end): leg.rtt_ms for leg in told.legs} == {
        ("home", str(DEST)): 200,
        ("home", "oslo"): 100,
        ("oslo", str(DEST)): 100,
        ("home", "tokyo"): 50,
        ("tokyo", str(DEST)): None,
    }
    would = {each.method: each.relays for each in (told.choice, *told.otherwise)}
    assert would[Choosing.PREDICTED] == would[Choosing.PING] == ("oslo",) and Choosing.TRACEROUTE not in would
    again = asks(world)
    assert again.inquiry.answered, "except for tokyo, which is not asked again so soon"
    assert not asks(world, anew=True).inquiry.answered


def test_trying_a_relay_measures_from_every_gateway_again() -> None:
    world = started(choose=Choosing.NEAREST)
    world.internet.rtt_ms = dict(FAR)
    for rtt_ms in (100, 120):
        world.internet.rtt_ms["home", RELAYS["oslo"]] = rtt_ms
        tried = RelayTrial(world.core.relays, world.core.overrides, "oslo", None, world.now)
        world.carry(world.core.relays.tend(world.core.in_force, world.now))
        world.drain()
        assert not tried.inquiries[0].answered
        world.measure()
        (reached,) = tried.result(world.now).relay.reached
        assert tried.inquiries[0].answered and (reached.rtt_ms, reached.setup_ms) == (rtt_ms, 41)


def test_query_shows_the_reason_for_a_missing_measurement() -> None:
    world = started(choose=Choosing.NEAREST)
    world.internet.rtt_ms = dict(FAR)
    world.relays["oslo"].cannot_measure = "no ping socket"
    world.join(world.relays["oslo"])
    world.leave(world.relays["tokyo"])
    world.seconds(1)
    asked = asks(world)
    world.measure()
    (told,) = asked.result(world.now)
    reason = {leg.start: leg.reason for leg in told.legs if leg.end == str(DEST)}
    assert reason["oslo"] == "the agent oslo cannot: no ping socket"
    assert reason["tokyo"] == "the agent tokyo is not connected"


def test_block_fallback_never_shows_a_direct_path() -> None:
    world = started(fallback=Fallback.BLOCK)
    world.internet.rtt_ms = {**FAR, ("home", str(DEST)): 20}
    asked = asks(world)
    world.measure()
    (told,) = asked.result(world.now)
    assert told.choice is not None and len(told.choice.relays) == 1
    assert told.choice.reason.startswith(
        "`fallback: block` forbids direct connections, and oslo has the shortest set-up time"
    )


def test_reachability_counts_only_from_intercepting_gateways() -> None:
    world = started()
    phone = FakeGateway("visitor", world.internet)
    world.join(phone)
    reached = tuple(RelayReached(name, "it lies", 0, 0, 0) for name in RELAYS)
    world.tell(replace(phone.report(), interception=InterceptionReport("", reached, (), ())))
    told = readout.relay_views(world.core.relays, world.core.overrides, world.now)
    assert [each.gateway for relay in told for each in relay.reached] == ["home", "home"]


def test_refused_orders_are_shown_and_repeated_after_a_while() -> None:
    world = started()
    world.home.refuses["Intercept"] = "no device rl-wifi"
    world.relays["oslo"].refuses["Relay"] = "the kernel has no bbr"
    world.wish(requests.drained("oslo", True))

    def reasons() -> tuple[str | None, str | None]:
        (told,) = readout.interception_views(world.core.relays)
        relays = readout.relay_views(world.core.relays, world.core.overrides, world.now)
        return told.why_not, next(each.why_not for each in relays if each.name == "oslo")

    world.seconds(1)
    assert reasons() == ("no device rl-wifi", "the kernel has no bbr")
    world.home.refuses.clear()
    world.relays["oslo"].refuses.clear()
    world.seconds(int(AGAIN_AFTER_S) + 1)
    assert reasons() == (None, None)


def test_invalid_query_is_refused_with_a_sentence() -> None:
    world = started()
    for address, site, reason in (
        ("192.168.1.1", None, "not an Internet address"),
        ("45.0.30.9", "shed", "the site 'shed' has no relayed terminal; sites with relayed terminals: home"),
    ):
        with pytest.raises(Impossible, match=reason):
            DestinationQuery(world.core.relays, ip_address(address), site, False, world.now)
    with pytest.raises(UnknownRelay):
        RelayTrial(world.core.relays, world.core.overrides, "paris", None, world.now)
    world.leave(world.home)
    with pytest.raises(Impossible, match="no gateway agent enrolled as home"):
        asks(world)


def test_query_waits_no_longer_than_the_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WALKED_WITHIN_S", 60.0)
    internet = Internet(dict(FAR))
    home, oslo = FakeGateway("home", internet), FakeRelay("oslo", internet)
    hosts = {1: home, 2: oslo}

    def perform(effect: Effect | AgentEffect) -> None:
        if isinstance(effect, Direct):
            core.post(hosts[effect.session].carry_out(effect))
            if isinstance(effect.order, MeasureDistances):
                core.post(hosts[effect.session].measured())

    core = service.Service("gateway.yaml", relayed_site.config(), Store(str(tmp_path / "state.json")), perform)
    core.start()
    try:
        core.vouch({"home": credential("home", 1), "oslo": credential("oslo", 2)})
        assert core.set_relay("oslo", RelayOverride(ip_address(RELAYS["oslo"]), 443)).changed
        for session, host in hosts.items():
            core.post(host.opened(session))
            core.snapshot()  # its consequences are complete
            report: Reported = host.report()
            core.post(report)
        (told,) = core.destination(DEST)
        assert told.legs[0].rtt_ms == 200 and told.otherwise[0].relays == ("oslo",)
        assert core.try_relay("oslo", DEST).relay.reached[0].rtt_ms == 100
        assert Store(str(tmp_path / "state.json")).load().overrides.relays.keys() == {"oslo"}
    finally:
        core.stop()
