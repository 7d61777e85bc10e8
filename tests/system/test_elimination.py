"""Two real bridges with a real agent at each: whatever is sent arrives once, by whichever uplink is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from experiments.live.agents import eliminating
from tests.system.conftest import Home
from tests.system.evidence import pings, until
from topologies.paper import SERVER

CLIENT, BY_LTE = "192.168.110.3", "192.168.210.3"
PINGS = 200


@pytest.fixture(scope="module")
def once(twin: Home) -> Iterator[Home]:
    with eliminating(twin.controller, "home", "far"):
        twin.await_in_force()
        yield twin


@pytest.fixture
def lossy(once: Home) -> Iterator[Home]:
    """Wi-Fi loses a third of what goes, and of what comes."""
    wifi = once.net.uplink("wifi")
    for way in (wifi.forward, wifi.backward):
        way.set(loss_percent=33)
    yield once
    for way in (wifi.forward, wifi.backward):
        way.set(loss_percent=0)


def pinged(home: Home, source: str, target: str = SERVER) -> tuple[int, int]:
    """How many were answered, and how many answers came too often."""
    said = pings(home.net.machine("client"), source, target, "-i", "0.01", count=PINGS)
    (answered,) = re.findall(r"(\d+) received", said)
    return int(answered), said.count("DUP!")


def copies(home: Home, site: str) -> dict[str, Any]:
    gateways = {one["name"]: one for one in home.controller.client.get("status")["gateways"]}
    return {one["name"]: one for one in gateways[site]["copies"]["paths"]}


@pytest.mark.parametrize("source", [CLIENT, BY_LTE])
def test_every_ping_is_answered_once(once: Home, source: str) -> None:
    assert pinged(once, source) == (PINGS, 0)


def test_what_one_uplink_loses_the_other_brings(lossy: Home) -> None:
    assert pinged(lossy, CLIENT) == (PINGS, 0)


def test_an_uplink_that_is_cut_costs_nothing(once: Home) -> None:
    wifi = once.net.uplink("wifi")
    for way in (wifi.forward, wifi.backward):
        way.set(loss_percent=100)
    try:
        assert pinged(once, CLIENT) == (PINGS, 0)
    finally:
        for way in (wifi.forward, wifi.backward):
            way.set(loss_percent=0)


def test_it_is_told_what_became_of_copies(once: Home) -> None:
    def total(counter: str) -> dict[str, int]:
        return {site: sum(path[counter] for path in copies(once, site).values()) for site in ("home", "far")}

    before = {counter: total(counter) for counter in ("first", "eliminated")}
    assert pinged(once, CLIENT) == (PINGS, 0)
    for counter, earlier in before.items():
        until(
            lambda counter=counter, earlier=earlier: all(
                total(counter)[site] - earlier[site] >= PINGS for site in ("home", "far")
            ),
            f"{PINGS} are told as {counter}",
        )
