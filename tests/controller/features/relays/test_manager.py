# SPDX-License-Identifier: Apache-2.0
"""Relays: the orders to each agent, the choice of a relay for a destination, and the measurements for it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from controller.agents.order_slot import AGAIN_AFTER_S
from controller.core import overrides
from controller.features.probing.manager import ProbingManager
from controller.features.relays import requests
from controller.features.relays.destinations import KEPT_S, MOST_DESTINATIONS
from controller.model.config import Config
from controller.model.overrides import MOST_RELAYS, WEB, Overrides, RelayOverride
from controller.model.relaying import Choosing, Fallback
from controller.protocol.enrolment import Credential
from controller.protocol.orders import (
    DistanceTarget,
    Intercept,
    InterceptedTerminal,
    InterceptRelay,
    InterceptUplink,
    LocalAddress,
    MeasureDistances,
    PortForward,
    Relay,
    RelayClient,
)
from controller.protocol.reports import PendingDestination, Role
from controller.protocol.requests import Impossible, UnknownRelay
from tests.controller import relayed_site, sites
from tests.controller.pair import CoreAndSwitch
from tests.fakes.relays import FakeGateway, FakeProber, FakeRelay, Internet

RELAYS = {"oslo": "198.51.100.7", "tokyo": "198.51.100.9"}
PLACE = PendingDestination("192.0.2.0/24", "192.0.2.80", 443)
PREFIX = PLACE.prefix


def credential(name: str, number: int = 1) -> Credential:
    """Return the credential of a site's or a relay's agent."""
    role = Role.GATEWAY if name == "home" else Role.RELAY
    return Credential(role, bytes([number]) * 32)


class RelayedHome(CoreAndSwitch):
    """A home whose terminals' connections are intercepted, and relays in an Internet."""

    def __init__(self, config: Config | None = None, **of_home: Any) -> None:
        config = config or relayed_site.config()
        (home,) = config.sites
        assert home.relaying is not None
        home = replace(home, relaying=replace(home.relaying, **{"choose": Choosing.PREDICTED, **of_home}))
        super().__init__(replace(config, sites=(home,)), [])
        self.internet = Internet()
        self.vouched: dict[str, Credential] = {}
        self.home = FakeGateway("home", self.internet)
        self.relays = {name: FakeRelay(name, self.internet) for name in RELAYS}

    def vouch(self, *names: str, number: int = 1) -> None:
        self.vouched = {**self.vouched, **{name: credential(name, number) for name in names}}
        self._vouch()

    def revoke(self, name: str) -> None:
        self.vouched = {each: digest for each, digest in self.vouched.items() if each != name}
        self._vouch()

    def _vouch(self) -> None:
        self.carry(self.core.vouch(self.vouched, self.now))

    def restart(self, config: Config | None = None) -> None:
        hosts, self.hosts = list(self.hosts.values()), {}
        super().restart(config)
        self._vouch()  # the ledger does so before any agent connects
        for host in hosts:
            self.join(host)

    def wish(self, wish: requests.WishOfRelays) -> str:
        answer, effects = overrides.of_relays(self.core, wish, self.now)
        self.carry(effects)
        self.drain()
        return answer.done[0]

    def add(self, *names: str) -> None:
        for name in names:
            self.wish(requests.wished(name, RelayOverride(ip_address(RELAYS[name]), 443)))

    def seconds(self, number: int) -> None:
        for _ in range(number):
            self.second()

    def measure(self) -> None:
        """Complete all measurements and deliver the resulting reports."""
        hosts: list[FakeProber] = [self.home, *self.relays.values()]
        for host in hosts:
            while host.measurements:
                self.tell(host.measured())
                self.drain()
        self.second()

    def chosen(self) -> dict[str, tuple[str, ...]]:
        return {one.prefix: one.relays for one in self.home.choices.choices}


def started(**of_home: Any) -> RelayedHome:
    world = RelayedHome(**of_home)
    world.vouch("home", *RELAYS)
    world.add(*RELAYS)
    for host in (world.home, *world.relays.values()):
        world.join(host)
    world.seconds(2)
    return world


def far_away() -> dict[tuple[str, str], float]:
    """Oslo is half-way to the destination, and Tokyo is not."""
    return {
        ("home", PLACE.address): 200,
        ("home", RELAYS["oslo"]): 100,
        ("home", RELAYS["tokyo"]): 150,
        ("oslo", PLACE.address): 100,
        ("tokyo", PLACE.address): 150,
    }


def seek(world: RelayedHome) -> None:
    """Let the gateway ask for the destination, and complete the measurements of its distances."""
    world.home.pending.append(PLACE)
    world.seconds(1)
    world.measure()
    world.measure()


def seeking(**of_home: Any) -> RelayedHome:
    world = started(**of_home)
    world.internet.rtt_ms = far_away()
    seek(world)
    return world


# Orders


def test_relay_gets_its_clients_and_gateway_its_terminals() -> None:
    world = started()
    assert world.relays["oslo"].order == Relay(443, (RelayClient("home", b"\1" * 32),), WEB)
    client = tuple(
        LocalAddress(uplink, (f"10.97.{number}.3", f"fd00:97{number}::3"))
        for uplink, number in (("wifi", 1), ("lte", 2))
    )
    phone = tuple(
        LocalAddress(uplink, (f"10.97.{number}.7", f"fd00:97{number}::7"))
        for uplink, number in (("lte", 2), ("wifi", 1))
    )
    assert world.home.order == Intercept(
        port="rl-home",
        terminals=(
            InterceptedTerminal("client", ("192.168.110.3", "192.168.210.3", "fd00:110::3"), client),
            InterceptedTerminal("phone", ("10.1.0.7", "fd00:1::7"), phone),
        ),
        uplinks=(
            InterceptUplink("wifi", "rl-wifi", ("10.97.1.1/24", "fd00:971::1/64")),
            InterceptUplink("lte", "rl-lte", ("10.97.2.1/24", "fd00:972::1/64")),
        ),
        relays=tuple(InterceptRelay(name, RELAYS[name], 443, key_sha256=b"\1" * 32) for name in ("oslo", "tokyo")),
        excepted=("203.0.113.0/24",),
    )
    told = len(world.home.told) + len(world.relays["oslo"].told)
    world.seconds(20)
    assert len(world.home.told) + len(world.relays["oslo"].told) == told


def test_agent_of_another_role_is_no_relay() -> None:
    world = started()
    world.vouched["oslo"] = replace(world.vouched["oslo"], role=Role.TERMINAL)
    world.vouch()
    world.drain()
    assert [one.name for one in world.home.order.relays] == ["tokyo"]


def test_draining_relay_gets_nothing_new_and_a_removed_one_ends() -> None:
    world = started()
    world.relays["oslo"].connections = 3
    world.seconds(1)
    assert world.wish(requests.drained("oslo", True)) == "oslo accepts no new connections; it carries 3 connections"
    assert world.relays["oslo"].order.draining and world.home.order.relays[0].draining
    assert world.wish(requests.drained("oslo", True)).endswith("(no change)")
    world.wish(requests.drained("oslo", False))
    assert not world.relays["oslo"].order.draining
    assert world.wish(requests.unwished("oslo")).endswith("it carries 3 connections, which end now")
    assert world.relays["oslo"].order == Relay() and [one.name for one in world.home.order.relays] == ["tokyo"]


def test_revoked_agent_is_not_used_and_a_lost_session_is() -> None:
    world = started()
    world.leave(world.relays["oslo"])
    world.seconds(3)
    assert [one.name for one in world.home.order.relays] == ["oslo", "tokyo"]
    world.revoke("oslo")
    world.revoke("home")
    world.drain()
    assert [one.name for one in world.home.order.relays] == ["tokyo"]
    assert world.relays["tokyo"].order.gateways == ()
    world.vouch("oslo", "home", number=2)
    world.drain()
    pins = {one.name: one.key_sha256 for one in world.home.order.relays}
    assert pins == {"oslo": b"\2" * 32, "tokyo": b"\1" * 32}, "the revoked key is not trusted"
    assert world.relays["tokyo"].order.gateways == (RelayClient("home", b"\2" * 32),)


def test_a_relay_that_was_away_learns_of_a_revocation() -> None:
    world = started()
    oslo = world.relays["oslo"]
    world.leave(oslo)
    world.revoke("home")
    world.seconds(3)
    assert oslo.order.gateways == (RelayClient("home", b"\1" * 32),), "nobody has told it"
    world.join(oslo)
    world.drain()
    assert oslo.order.gateways == ()


def test_controller_restart_repeats_the_orders_in_force() -> None:
    world = started()
    before = world.home.order, world.relays["oslo"].order
    told = len(world.home.orders_of(Intercept))
    world.restart()
    world.seconds(3)
    assert (world.home.order, world.relays["oslo"].order) == before
    assert [order for order in world.home.orders_of(Intercept)[told:] if order != before[0]] == []


def test_interception_that_is_no_longer_configured_is_undone() -> None:
    world = started()
    assert world.home.order.terminals
    config = world.core.config
    world.carry(world.core.reconfigure(replace(config, sites=(replace(config.sites[0], relaying=None),)), world.now))
    world.seconds(1)
    assert world.home.order == Intercept() and world.relays["oslo"].order.gateways == ()


# Overrides


@pytest.mark.parametrize(
    ("name", "address", "reason"),
    [
        ("bicast-controller", "192.0.2.1", "not a valid name for a relay"),
        ("Oslo", "192.0.2.1", "not a valid name for a relay"),
        ("home", "192.0.2.1", "a site of gateway.yaml and its agent are named home"),
        ("phone", "192.0.2.1", "a terminal of gateway.yaml and its agent are named phone"),
        ("paris", "224.0.0.1", "cannot be reached by gateways"),
        ("paris", "127.0.0.1", "cannot be reached by gateways"),
        ("paris", "::", "cannot be reached by gateways"),
        ("paris", "fe80::1", "cannot be reached by gateways"),
        ("paris", "::ffff:192.0.2.1", "no address in ::ffff:0:0/96 can"),
        ("paris", RELAYS["oslo"], "the relay oslo is at"),
        ("paris", "10.97.1.7", "that represents terminals"),
        ("paris", "192.168.100.2", "192.168.100.2 is the bridge at home"),
        ("paris", "192.168.110.3", "is the terminal .* at home"),
    ],
)
def test_invalid_relay_is_refused_and_changes_nothing(name: str, address: str, reason: str) -> None:
    world = started()
    before = world.core.overrides
    with pytest.raises(Impossible, match=reason):
        world.wish(requests.wished(name, RelayOverride(ip_address(address), 443)))
    with pytest.raises(Impossible, match="expected a port outside 8700 to 8763"):
        world.wish(requests.wished("paris", RelayOverride(ip_address("192.0.2.1"), 8763)))
    assert world.core.overrides is before


def test_relay_of_a_family_without_gateway_is_refused() -> None:
    written = relayed_site.document()
    for uplink in written["sites"]["home"]["relaying"]["uplinks"].values():
        uplink["gateways"].pop()
    paris = requests.wished("paris", RelayOverride(ip_address("2001:470::9"), 443))
    with pytest.raises(Impossible, match="relaying has no IPv6"):
        paris(sites.loaded(written), Overrides(), lambda _: "")


def test_relays_are_limited_in_number_and_unknown_ones_refused() -> None:
    world = RelayedHome()
    for number in range(MOST_RELAYS):
        world.wish(requests.wished(f"r{number}", RelayOverride(ip_address(f"192.0.2.{number + 1}"), 443)))
    with pytest.raises(Impossible, match="remove one first"):
        world.wish(requests.wished("paris", RelayOverride(ip_address("192.0.2.100"), 443)))
    with pytest.raises(UnknownRelay, match="did you mean r"):
        world.wish(requests.drained("r100", True))


# Choices


def test_destination_is_measured_once_and_gets_the_best_relay() -> None:
    world = seeking()
    assert world.chosen() == {PREFIX: ("oslo",)}
    there = DistanceTarget(PLACE.address, 443)
    world.seconds(60)
    (order,) = world.home.orders_of(MeasureDistances)
    assert isinstance(order, MeasureDistances)
    assert set(order.targets) == {there, *(DistanceTarget(address, 443) for address in RELAYS.values())}
    assert all(relay.orders_of(MeasureDistances) == [MeasureDistances((there,))] for relay in world.relays.values())


def test_measurements_wait_for_a_reachable_relay() -> None:
    world = started()
    world.internet.dead.update(RELAYS)
    world.home.pending.append(PLACE)
    world.seconds(3)
    assert not world.home.orders_of(MeasureDistances) and not world.chosen()


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({"fallback": Fallback.DIRECT}, {PREFIX: ()}),
        ({"fallback": Fallback.BLOCK}, {}),
        ({"choose": Choosing.NEAREST}, {}),
    ],
)
def test_direct_path_is_chosen_if_fastest_unless_forbidden(settings: dict[str, Any], chosen: dict[str, Any]) -> None:
    world = started(**settings)
    world.internet.rtt_ms = dict.fromkeys(far_away(), 300) | {("home", PLACE.address): 20}
    seek(world)
    assert world.chosen() == chosen
    measured = bool(world.home.orders_of(MeasureDistances))
    assert measured == ("choose" not in settings), "the nearest relay needs no measurement"


def test_unusable_relay_is_left_at_once_and_a_silent_one_is_not() -> None:
    world = seeking()
    world.leave(world.relays["oslo"])
    world.seconds(30)
    assert world.chosen() == {PREFIX: ("oslo",)}
    world.internet.dead.add("oslo")
    world.seconds(1)
    assert "oslo" not in world.chosen().get(PREFIX, ())
    world.seconds(2)
    assert world.chosen() == {PREFIX: ("tokyo",)}
    world.internet.dead.clear()
    world.join(world.relays["oslo"])
    world.seconds(2)
    assert world.chosen() == {PREFIX: ("oslo",)}
    world.wish(requests.drained("oslo", True))
    assert "oslo" not in world.chosen().get(PREFIX, ())
    world.wish(requests.drained("oslo", False))
    world.seconds(2)
    assert world.chosen() == {PREFIX: ("oslo",)}
    world.relays["oslo"].busy_percent = 99
    world.seconds(12)
    assert world.chosen() == {PREFIX: ("tokyo",)}


def test_old_measurement_expires_and_is_repeated_on_demand() -> None:
    world = seeking()
    world.seconds(int(KEPT_S) - 30)
    assert world.chosen() == {PREFIX: ("oslo",)}
    while not world.home.measurements:
        world.seconds(1)
    assert not world.chosen()
    world.measure()
    world.measure()
    assert world.chosen() == {PREFIX: ("oslo",)}


def test_unreachable_destination_is_retried_rarely() -> None:
    world = started()
    seek(world)
    world.seconds(50)
    assert not world.chosen() and len(world.home.orders_of(MeasureDistances)) == 1
    world.internet.rtt_ms = far_away()
    world.seconds(20)
    world.measure()
    world.measure()
    assert world.chosen() == {PREFIX: ("oslo",)}


def test_agent_without_a_distance_delays_no_choice() -> None:
    world = started()
    world.internet.rtt_ms = far_away()
    world.home.pending.append(PLACE)
    world.seconds(1)
    tokyo = world.relays["tokyo"]
    for host in (world.home, world.relays["oslo"]):
        world.tell(host.measured())
    world.seconds(8)
    assert world.chosen() == {PREFIX: ("oslo",)} and tokyo.measurements


@pytest.mark.parametrize(
    ("measured", "configured", "reason"),
    [
        (20e6, (None, None), "direct 20 Mbit/s (the link's 20 Mbit/s); no relay gains enough"),
        (1e9, (20_000_000, 5_000_000), "direct 20 Mbit/s"),
        (1e9, (20_000_000, None), "oslo"),
    ],
)
def test_configured_or_else_measured_uplink_rate_limits_all_paths(
    monkeypatch: pytest.MonkeyPatch, measured: float, configured: tuple[int | None, ...], reason: str
) -> None:
    monkeypatch.setattr(ProbingManager, "uplink_bps", lambda *_: measured)
    relaying = relayed_site.site().relaying
    assert relaying is not None
    uplinks = zip(relaying.uplinks, configured, strict=True)
    world = seeking(uplinks=tuple(replace(uplink, bandwidth_bps=bps) for uplink, bps in uplinks))
    place = world.core.relays.chooser.destination("home", PREFIX)
    assert place is not None and place.choice is not None and place.choice.reason.startswith(reason)


def test_parallel_relays_forward_joins_to_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProbingManager, "uplink_bps", lambda *_: 1e9)
    world = seeking(choose=Choosing.PARALLEL)
    (choice,) = world.home.choices.choices
    assert set(choice.relays) == set(RELAYS) and choice.together
    oslo, tokyo = world.relays["oslo"], world.relays["tokyo"]
    to_oslo, to_tokyo = PortForward(8700, RELAYS["oslo"], 443), PortForward(8701, RELAYS["tokyo"], 443)
    assert (oslo.order.onward, tokyo.order.onward) == ((to_tokyo,), (to_oslo,))
    assert [one.onward for one in world.home.order.relays] == [(to_tokyo,), (to_oslo,)]
    world.leave(world.home)
    world.seconds(60)
    assert tokyo.order.onward, "orders stay in force while the gateway is silent"
    world.join(world.home)
    world.wish(requests.unwished("oslo"))
    assert not tokyo.order.onward and [one.onward for one in world.home.order.relays] == [()]
    world.wish(requests.wished("bergen", RelayOverride(ip_address("198.51.100.8"), 443)))
    assert {name: each.number for name, each in world.core.overrides.relays.items()} == {
        "tokyo": 1,
        "bergen": 0,
    }


def test_traceroute_finds_routers_and_applies_filters() -> None:
    world = started(choose=Choosing.TRACEROUTE)
    world.internet.rtt_ms = far_away()
    world.internet.routers = {
        ("home", PLACE.address): ["192.0.2.11", "", "192.0.2.12"],
        ("oslo", PLACE.address): ["192.0.2.13", "192.0.2.12"],
        ("tokyo", PLACE.address): ["192.0.2.13", "", "", "192.0.2.12"],
    }
    seek(world)
    (order,) = world.relays["oslo"].orders_of(MeasureDistances)
    assert order == MeasureDistances((DistanceTarget(PLACE.address, 443, routers=True),))
    assert world.chosen() == {PREFIX: ()}  # the shared router is 150 of 200 ms away, below 0.9


def test_oldest_of_too_many_destinations_is_dropped() -> None:
    world = started()
    scene = world.core.relays.context("home")
    assert scene is not None
    for number in range(MOST_DESTINATIONS + 10):
        at = f"192.{number // 250}.{number % 250}"
        world.core.relays.chooser.seek(scene, PendingDestination(f"{at}.0/24", f"{at}.1", 443), world.now)
    assert world.core.relays.chooser.counted("home") == (MOST_DESTINATIONS, 0)
    assert world.core.relays.chooser.destination("home", "192.0.0.0/24") is None


STEPS = some.sampled_from(
    [
        *(f"{what} {name}" for what in ("add", "remove", "drain", "resume") for name in RELAYS),
        *(f"{what} {name}" for what in ("join", "leave", "vouch", "revoke") for name in ("home", *RELAYS)),
        *("active lte", "active wifi", "restart", "second", "measure", "seek", "die oslo", "live oslo"),
    ]
)


@settings(max_examples=40, deadline=None)
@given(some.lists(STEPS, max_size=30))
def test_orders_after_random_events_equal_a_fresh_start(steps: list[str]) -> None:
    world = RelayedHome()
    world.internet.rtt_ms = far_away()
    for each in steps:
        _step(world, *each.split())
    hosts = (world.home, *world.relays.values())
    for host in hosts:
        if host.session not in world.hosts:
            world.join(host)
    world.seconds(int(AGAIN_AFTER_S) + 3)
    fresh = RelayedHome()
    fresh.core.overrides = replace(world.core.overrides, modes={})
    fresh.vouched = world.vouched
    fresh.restart()
    fresh.internet.dead = world.internet.dead
    for host in (fresh.home, *fresh.relays.values()):
        fresh.join(host)
    fresh.seconds(2)
    assert world.home.order == fresh.home.order
    assert {name: each.order for name, each in world.relays.items()} == {
        name: each.order for name, each in fresh.relays.items()
    }
    usable = {each.name for each in world.home.order.relays if not each.draining} - world.internet.dead
    assert all(set(one.relays) <= usable for one in world.home.choices.choices)


def _step(world: RelayedHome, what: str, name: str = "") -> None:
    hosts: dict[str, FakeProber] = {"home": world.home, **world.relays}
    there = name in world.core.overrides.relays
    match what:
        case "add":
            world.add(name)
        case "remove" if there:
            world.wish(requests.unwished(name))
        case "drain" | "resume" if there:
            world.wish(requests.drained(name, what == "drain"))
        case "join":
            world.join(hosts[name])
        case "leave":
            world.leave(hosts[name])
        case "vouch":
            world.vouch(name)
        case "revoke":
            world.revoke(name)
        case "active":
            world.carry(overrides.active(world.core, "client", name, world.now)[1])
        case "restart":
            world.restart()
        case "second":
            world.second()
        case "measure":
            world.measure()
        case "seek":
            world.home.pending = [PLACE]
        case "die":
            world.internet.dead.add(name)
        case "live":
            world.internet.dead.discard(name)
    world.drain()
