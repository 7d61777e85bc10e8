# SPDX-License-Identifier: Apache-2.0
"""Two real bridges with real agents deliver each packet once, over any uplink that works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.processes.agents import eliminating
from lab.stage import ovs
from tests.system.conftest import GatewayLab
from tests.system.evidence import reaches, until
from tests.system.pinging import PINGS, assert_each_once, copies, pinged, pinging
from tests.system.test_reload import IN_FORCE, reload
from topologies.paper import SERVER

CLIENT, BY_LTE = "192.168.110.3", "192.168.210.3"
HOPS = {"100.1": "fe-wifi", "100.2": "gw-wifi", "200.1": "fe-lte", "200.2": "gw-lte"}
TIMES_OUT = 3  # the third timeout lasts 20 s
BEFORE_TRIAL_S = 15.0


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


@pytest.fixture
def written(once: GatewayLab) -> Iterator[GatewayLab]:
    """Yield sites whose file has the MACs of all next hops."""
    before = text = once.controller.file.read_text()
    for host, device in HOPS.items():
        mac = ovs.vsctl("get", "Interface", device, "mac_in_use").strip()
        text = text.replace(f"{{address: 192.168.{host}}}", f"{{address: 192.168.{host}, mac: {mac}}}")
    assert text.count("mac: ") == len(HOPS)
    once.controller.file.write_text(text)
    reload(once, IN_FORCE)
    once.await_in_force()
    yield once
    once.controller.file.write_text(before)
    reload(once, IN_FORCE)


@pytest.mark.slow
def test_a_healed_uplink_takes_over_before_its_next_trial(written: GatewayLab) -> None:
    try:
        with pinging(written, CLIENT):
            lose(written, "wifi", 100)
            for _ in range(TIMES_OUT):
                written.controller.await_word("get no copies: wifi")
        lose(written, "wifi", 0)
        lose(written, "lte", 100)
        until(lambda: reaches(written.net.machine("client"), CLIENT, SERVER), "Wi-Fi carries", BEFORE_TRIAL_S)
    finally:
        lose(written, "wifi", 0)
        lose(written, "lte", 0)
    with pinging(written, CLIENT):
        until(lambda: not silent(written, "home") | silent(written, "far"), "both bring copies again")


def lose(home: GatewayLab, name: str, percent: float) -> None:
    """Set the loss of both directions of an uplink."""
    uplink = home.net.uplink(name)
    for way in (uplink.forward, uplink.backward):
        way.set(loss_percent=percent)


def test_the_counters_of_both_sites_follow_the_copies(once: GatewayLab) -> None:
    """Pings go on until the counters have grown: an uplink that an earlier test broke may still be held out."""

    def total(counter: str) -> dict[str, int]:
        return {site: sum(path[counter] for path in copies(once, site).values()) for site in ("home", "far")}

    before = {counter: total(counter) for counter in ("first", "eliminated")}
    with pinging(once, CLIENT):
        for counter, earlier in before.items():
            until(
                lambda counter=counter, earlier=earlier: all(
                    total(counter)[site] - earlier[site] >= PINGS for site in ("home", "far")
                ),
                f"both sites count {PINGS} more as {counter}",
            )
