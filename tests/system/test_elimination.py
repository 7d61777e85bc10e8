"""Two real bridges with a real agent at each: whatever is sent arrives once, by whichever uplink is there."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    print(said, json.dumps({site: copies(home, site) for site in ("home", "far")}))  # where it is another number
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


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_an_uplink_that_brings_no_copies_is_named_and_left_while_nobody_loses_anything(
    once: Home, direction: str
) -> None:
    """Whichever of its directions is dead."""
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
    numbers = [int(number) for number in re.findall(r"icmp_seq=(\d+)", answers())]
    assert sorted(numbers) == list(range(1, len(numbers) + 1)), (
        "none is lost, none comes twice; the last may be under way"
    )


@contextmanager
def pinging(home: Home, source: str) -> Iterator[Callable[[], str]]:
    """While the block runs; what ping said is known after it."""
    words = ["ping", "-i", "0.02", "-I", source, SERVER]
    process = home.net.machine("client").popen(words, stdout=subprocess.PIPE, text=True)
    said: list[str] = []
    try:
        yield lambda: said[0]
    finally:
        process.send_signal(signal.SIGINT)
        said.append(process.communicate()[0])


def silent(home: Home, site: str) -> set[str]:
    gateways = {one["name"]: one for one in home.controller.client.get("status")["gateways"]}
    return {one["uplink"] for one in gateways[site]["copies"]["silent"]}


def active(home: Home) -> str:
    return str(home.controller.client.get("terminals", "client")["active_uplink"])


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
