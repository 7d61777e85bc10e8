# SPDX-License-Identifier: Apache-2.0
"""Measurements of relays age, and agents and the controller restart, but choices stay."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

from controller.features.relays import requests
from controller.features.relays.destinations import KEPT_S
from controller.model.overrides import RelayOverride
from controller.model.relaying import Choosing
from controller.protocol.orders import Choices
from controller.protocol.reports import PendingDestination
from tests.controller.features.relays.test_manager import PLACE, PREFIX, RELAYS, far_away, seeking, started
from tests.controller.pair import CoreAndSwitch

OTHER = PendingDestination("192.0.3.0/24", "192.0.3.80", 443)


def test_relay_is_kept_although_its_measurement_is_older() -> None:
    world = seeking()
    world.seconds(200)
    as_far = {(who, OTHER.address): rtt_ms for (who, to), rtt_ms in far_away().items() if to == PLACE.address}
    world.internet.rtt_ms |= as_far
    world.home.pending = [OTHER]
    world.seconds(1)
    for _ in range(int(KEPT_S)):
        world.measure()
        assert world.chosen().get(OTHER.prefix, ("oslo",)) == ("oslo",)


def test_controller_restart_keeps_relays_that_return_late() -> None:
    world = seeking()
    world.hosts = {}
    CoreAndSwitch.restart(world)
    world.vouch()
    world.join(world.home)
    for _ in range(2):
        world.seconds(1)
        world.measure()
        assert not world.chosen()
    for relay in world.relays.values():
        world.join(relay)
    for _ in range(5):
        world.measure()
        assert world.chosen().get(PREFIX, ("oslo",)) == ("oslo",)
    assert world.chosen() == {PREFIX: ("oslo",)}


def test_removed_relay_leaves_no_data_for_its_name() -> None:
    world = seeking()
    world.wish(requests.unwished("oslo"))
    world.revoke("oslo")
    world.leave(world.relays["oslo"])
    world.internet.rtt_ms |= {("home", "198.51.100.77"): 100, ("oslo", PLACE.address): 900}
    world.wish(requests.wished("oslo", RelayOverride(ip_address("198.51.100.77"), 443)))
    world.vouch("oslo", number=2)
    world.join(world.relays["oslo"])
    for _ in range(5):
        world.measure()
    assert world.chosen() == {PREFIX: ("tokyo",)}


def test_gateway_keeps_its_choices_after_a_broken_session() -> None:
    world = seeking()
    before = world.home.choices
    world.leave(world.home)
    world.seconds(3)
    world.home.told.clear()
    world.join(world.home)
    world.seconds(5)
    assert world.chosen() == {PREFIX: ("oslo",)}
    assert all(order == before for order in world.home.orders_of(Choices))


def test_relay_that_left_during_a_measurement_is_asked_again() -> None:
    world = started()
    world.internet.rtt_ms = far_away()
    world.home.pending = [PLACE]
    world.seconds(1)
    oslo = world.relays["oslo"]
    assert oslo.measurements
    for host in (world.home, world.relays["tokyo"]):
        world.tell(host.measured())
    world.leave(oslo)
    world.seconds(8)
    assert world.chosen() == {PREFIX: ("tokyo",)}
    world.join(oslo)
    for _ in range(5):
        world.measure()
    assert world.chosen() == {PREFIX: ("oslo",)}


def test_new_method_takes_effect_at_once() -> None:
    world = seeking(choose=Choosing.PING)
    for relay in world.relays.values():
        relay.busy_percent = 99  # ping ignores it
    world.seconds(2)
    assert world.chosen() == {PREFIX: ("oslo",)}
    (home,) = world.core.config.sites
    assert home.relaying is not None
    written = replace(home, relaying=replace(home.relaying, choose=Choosing.PREDICTED))
    world.carry(world.core.reconfigure(replace(world.core.config, sites=(written,)), world.now))
    world.seconds(2)
    assert world.chosen() == {PREFIX: ()}


def test_relay_with_a_false_distance_is_not_chosen() -> None:
    """Tokyo is near the site, and reports 1 us to every destination."""
    world = started()
    world.internet.rtt_ms = far_away() | {("home", RELAYS["tokyo"]): 20, ("tokyo", PLACE.address): 0.001}
    world.home.pending.append(PLACE)
    world.second()
    for _ in range(5):
        world.measure()
    assert world.chosen() == {PREFIX: ("oslo",)}
