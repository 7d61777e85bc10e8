# SPDX-License-Identifier: Apache-2.0
"""What is known of relays ages, and agents and the controller come and go: what was chosen stays chosen."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

from controller.features.relays import requests
from controller.features.relays.destinations import KEPT_S
from controller.model.known import RelayOverride
from controller.model.relaying import Choosing
from controller.protocol.orders import Choices
from controller.protocol.reports import SoughtDestination
from tests.controller.features.relays.test_manager import PLACE, PREFIX, RELAYS, far_away, seeking, standing
from tests.controller.pair import Pair

OTHER = SoughtDestination("192.0.3.0/24", "192.0.3.80", 443)


def test_a_relay_is_not_left_because_the_way_to_it_was_walked_long_before_that_to_the_place() -> None:
    world = seeking()
    world.seconds(200)
    as_far = {(who, OTHER.address): rtt_ms for (who, to), rtt_ms in far_away().items() if to == PLACE.address}
    world.internet.rtt_ms |= as_far
    world.home.seeks = [OTHER]
    world.seconds(1)
    for _ in range(int(KEPT_S)):
        world.walk()
        assert world.chosen().get(OTHER.prefix, ("oslo",)) == ("oslo",)


def test_a_controller_that_was_started_again_does_not_leave_relays_that_come_later_than_the_gateway() -> None:
    world = seeking()
    world.hands = {}
    Pair.restart(world)
    world.vouch()
    world.join(world.home)
    for _ in range(2):
        world.seconds(1)
        world.walk()
        assert not world.chosen()
    for relay in world.relays.values():
        world.join(relay)
    for _ in range(5):
        world.walk()
        assert world.chosen().get(PREFIX, ("oslo",)) == ("oslo",)
    assert world.chosen() == {PREFIX: ("oslo",)}


def test_of_a_relay_that_was_removed_nothing_is_believed_of_another_host_by_that_name() -> None:
    world = seeking()
    world.wish(requests.unwished("oslo"))
    world.revoke("oslo")
    world.leave(world.relays["oslo"])
    world.internet.rtt_ms |= {("home", "198.51.100.77"): 100, ("oslo", PLACE.address): 900}
    world.wish(requests.wished("oslo", RelayOverride(ip_address("198.51.100.77"), 443)))
    world.vouch("oslo", number=2)
    world.join(world.relays["oslo"])
    for _ in range(5):
        world.walk()
    assert world.chosen() == {PREFIX: ("tokyo",)}


def test_a_gateway_whose_stream_broke_off_keeps_its_choices() -> None:
    world = seeking()
    before = world.home.choices
    world.leave(world.home)
    world.seconds(3)
    world.home.told.clear()
    world.join(world.home)
    world.seconds(5)
    assert world.chosen() == {PREFIX: ("oslo",)}
    assert all(order == before for order in world.home.orders_of(Choices))


def test_a_relay_that_went_away_while_it_walked_is_asked_again_when_it_is_back() -> None:
    world = standing()
    world.internet.rtt_ms = far_away()
    world.home.seeks = [PLACE]
    world.seconds(1)
    oslo = world.relays["oslo"]
    assert oslo.walks
    for hand in (world.home, world.relays["tokyo"]):
        world.tell(hand.walked())
    world.leave(oslo)
    world.seconds(8)
    assert world.chosen() == {PREFIX: ("tokyo",)}
    world.join(oslo)
    for _ in range(5):
        world.walk()
    assert world.chosen() == {PREFIX: ("oslo",)}


def test_by_another_way_to_choose_it_is_chosen_anew_at_once() -> None:
    world = seeking(choose=Choosing.PING)
    for relay in world.relays.values():
        relay.busy_percent = 99  # which ping does not ask for
    world.seconds(2)
    assert world.chosen() == {PREFIX: ("oslo",)}
    (home,) = world.core.config.sites
    assert home.relaying is not None
    written = replace(home, relaying=replace(home.relaying, choose=Choosing.PREDICTED))
    world.carry(world.core.reconfigure(replace(world.core.config, sites=(written,)), world.now))
    world.seconds(2)
    assert world.chosen() == {PREFIX: ()}


def test_a_relay_that_reports_a_false_distance_attracts_nothing() -> None:
    """Tokyo is near the site, and says that every destination is 1 us from there."""
    world = standing()
    world.internet.rtt_ms = far_away() | {("home", RELAYS["tokyo"]): 20, ("tokyo", PLACE.address): 0.001}
    world.home.seeks.append(PLACE)
    world.second()
    for _ in range(5):
        world.walk()
    assert world.chosen() == {PREFIX: ("oslo",)}
