# SPDX-License-Identifier: Apache-2.0
"""Two real bridges with real agents deliver each packet once, over any uplink that works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.processes.agents import eliminating
from tests.system.conftest import GatewayLab
from tests.system.evidence import until
from tests.system.pinging import PINGS, assert_each_once, pinged, pinging

CLIENT, BY_LTE = "192.168.110.3", "192.168.210.3"


@pytest.fixture(scope="module")
def once(twin: GatewayLab) -> Iterator[GatewayLab]:
    with eliminating(twin.controller, "home", "far"):
        twin.await_in_force()
        yield twin


@pytest.fixture
def lossy(once: GatewayLab) -> Iterator[GatewayLab]:
    lose(once, "wifi", 33)
    yield once
    lose(once, "wifi", 0)


@pytest.mark.parametrize("source", [CLIENT, BY_LTE])
def test_every_ping_is_answered_once(once: GatewayLab, source: str) -> None:
    assert pinged(once, source) == (PINGS, 0)


def test_losses_on_one_uplink_are_covered_by_the_other(lossy: GatewayLab) -> None:
    assert pinged(lossy, CLIENT) == (PINGS, 0)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_silent_uplink_is_named_and_left_without_loss(once: GatewayLab, direction: str) -> None:
    """One direction of the uplink is dead."""
    way = getattr(once.net.uplink("wifi"), direction)
    site = {"forward": "far", "backward": "home"}[direction]
    with pinging(once, CLIENT) as answers:
        way.set(loss_percent=100)
        try:
            until(lambda: silent(once, site) == {"wifi"}, f"{site} says that Wi-Fi is silent")
            until(lambda: active(once) == "lte", "the client is on LTE")
        finally:
            way.set(loss_percent=0)
        until(lambda: silent(once, site) == set(), "Wi-Fi brings copies again")
    assert_each_once(answers())


def silent(home: GatewayLab, site: str) -> set[str]:
    gateways = {one["name"]: one for one in home.controller.client.get("status")["gateways"]}
    return {one["uplink"] for one in gateways[site]["copies"]["silent"]}


def active(home: GatewayLab) -> str:
    return str(home.controller.client.get("terminals", "client")["active_uplink"])


def lose(home: GatewayLab, name: str, percent: float) -> None:
    """Set the loss of both directions of an uplink."""
    uplink = home.net.uplink(name)
    for way in (uplink.forward, uplink.backward):
        way.set(loss_percent=percent)
