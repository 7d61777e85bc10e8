# SPDX-License-Identifier: Apache-2.0
"""Three uplinks and four terminals of two families find each other without a configured MAC."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller.edges.config import load
from lab.stage.command import run
from lab.stage.nodes import Machine
from tests.system.conftest import WIDE, GatewayLab
from tests.system.evidence import arrivals, assert_reaches, flows, pings, reaches, snooping, until
from topologies.wide import BRIDGE, SERVER4, SERVER6, UPLINKS, both

SITE = load.load(str(WIDE)).sites[0]
ADDRESSES = {terminal.name: [str(place.address) for place in terminal.addresses] for terminal in SITE.terminals}
UNASKED_S = 20.0  # the controller asks each next hop after 30 s
NEW_MAC = "02:00:5e:00:00:77"


def version(address: str) -> int:
    return 6 if ":" in address else 4


def server(address: str) -> str:
    return SERVER6 if version(address) == 6 else SERVER4


@contextmanager
def changed_mac(machine: Machine, device: str) -> Iterator[None]:
    """Replace a machine by one with another MAC and no known neighbours, until the block ends."""
    before = json.loads(machine.run("ip", "-json", "link", "show", device).stdout)[0]["address"]
    try:
        give_mac(machine, device, NEW_MAC)
        yield
    finally:
        give_mac(machine, device, before)


def give_mac(machine: Machine, device: str, mac: str) -> None:
    machine.run("ip", "link", "set", device, "address", mac)
    machine.run("ip", "neigh", "flush", "dev", device)


@pytest.mark.parametrize("name", ADDRESSES)
def test_every_terminal_reaches_the_server_from_every_address(wide: GatewayLab, name: str) -> None:
    for address in ADDRESSES[name]:
        until(lambda address=address: reaches(wide.net.machine(name), address, server(address)), f"{address} is heard")  # type: ignore[misc]


@pytest.mark.parametrize("name", ADDRESSES)
def test_the_server_reaches_every_terminal(wide: GatewayLab, name: str) -> None:
    for address in ADDRESSES[name]:
        assert_reaches(wide.net.machine("server"), server(address), address)


PAIRS = [
    (one, own, other, its)
    for one in ADDRESSES
    for other in ADDRESSES
    if one != other
    for own, its in zip(ADDRESSES[one][-2:], ADDRESSES[other][-2:], strict=False)
    if version(own) == version(its)
]


@pytest.mark.parametrize(("one", "own", "other", "its"), PAIRS)
def test_terminals_reach_each_other_through_the_gateway(
    wide: GatewayLab, one: str, own: str, other: str, its: str
) -> None:
    """Terminals behind one access point do, too: their packets leave through their input port."""
    assert_reaches(wide.net.machine(one), own, its)


def test_the_gateway_is_found_and_answers_in_both_families(wide: GatewayLab) -> None:
    for uplink in UPLINKS:
        for own, gateway in zip(both(uplink.inner, 3), both(uplink.inner, 2), strict=True):
            machine = wide.net.machine("laptop")
            machine.run("ip", "neigh", "flush", "dev", uplink.name)
            assert_reaches(machine, own, gateway)
            told = json.loads(machine.run("ip", "-json", "neigh", "show", gateway).stdout)
            assert [each["lladdr"] for each in told] == [mac_of_port(f"gw-l{UPLINKS.index(uplink) + 1}")]


def test_neighbours_find_each_other_without_a_controller(wide: GatewayLab) -> None:
    """Each has the other in its own subnet, and gets the gateway's MAC as the answer."""
    hosts = {"laptop": (3, "wifi", "gw-l1"), "phone": (4, "wlan", "gw-air")}
    for name, (host, _, _) in hosts.items():
        for address in both(UPLINKS[0].inner, host):
            until(lambda name=name, at=address: reaches(wide.net.machine(name), at, server(at)), f"{address} is known")  # type: ignore[misc]
    wide.controller.kill()
    try:
        for (name, (_, device, port)), (other, _, _) in zip(hosts.items(), reversed(hosts.values()), strict=True):
            machine = wide.net.machine(name)
            for address in both(UPLINKS[0].inner, other):
                machine.run("ip", "neigh", "flush", "to", address, "dev", device)
                told = machine.run("ping", "-c", "3", "-i", "0.1", "-w", "60", address, check=False).stdout
                assert ", 0% packet loss" in told and "ttl=63" in told, told
                seen = json.loads(machine.run("ip", "-json", "neigh", "show", address).stdout)
                assert [each["lladdr"] for each in seen] == [mac_of_port(port)]
    finally:
        wide.controller.start()
        wide.controller.await_steady()


def mac_of_port(name: str) -> str:
    link = json.loads(run("ip", "-json", "link", "show", name).stdout)
    return str(link[0]["address"])


def test_copies_use_every_uplink_of_the_family(wide: GatewayLab) -> None:
    machine = wide.net.machine("laptop")
    with arrivals(wide.net.machine("router"), "wifi", "lte", "dsl") as router:
        for source in both(110, 3):
            told = machine.run(
                "curl", "--silent", "--noproxy", "*", "--connect-timeout", "20", "--interface", source,
                f"http://[{SERVER6}]:81/" if version(source) == 6 else f"http://{SERVER4}:81/", check=False,
            )  # fmt: skip
            assert told.returncode == 7, "nobody listens there, and the refusal came back"
            seen = router.since()

            def even(seen: Counter[tuple[str, str]] = seen) -> bool:
                seen.update(router.since())
                return seen["wifi", "tcp"] == seen["lte", "tcp"] == seen["dsl", "tcp"] > 0

            until(even, "each uplink has carried as many")


@pytest.mark.parametrize("name", ["camera", "sensor"])
def test_a_terminal_with_a_new_mac_is_learned(wide: GatewayLab, name: str) -> None:
    machine = wide.net.machine(name)
    before = flows(BRIDGE)
    with snooping(BRIDGE) as snoop, changed_mac(machine, "wlan"):
        for address in ADDRESSES[name]:
            until(lambda address=address: reaches(machine, address, server(address)), f"{address} is heard")  # type: ignore[misc]
        snoop.settled()
        assert snoop.modifications().keys() == {"OFPT_GROUP_MOD"}
        assert flows(BRIDGE) == before
        learned = wide.controller.client.get("terminals", name)["addresses"]
        assert {place["mac"] for place in learned} == {NEW_MAC}


def router_at_dsl(router: Machine, mac: str) -> None:
    """Set up dsl's router again with its addresses and routes, which a link that goes down loses."""
    router.run("ip", "link", "set", "dsl", "address", mac, "up")
    for address in both(150, 1):
        length = 64 if version(address) == 6 else 24
        nodad = ("nodad",) if version(address) == 6 else ()
        router.run("ip", "address", "replace", f"{address}/{length}", "dev", "dsl", *nodad)
    for subnet, via in zip(("192.168.160.0/24", "fd00:160::/64"), both(150, 2), strict=True):
        router.run("ip", "-6" if ":" in via else "-4", "route", "replace", subnet, "via", via, "dev", "dsl")


@pytest.fixture
def by_dsl(wide: GatewayLab) -> Iterator[GatewayLab]:
    """Send camera's packets over dsl, and restore the old router after the test."""
    router, client = wide.net.machine("router"), wide.controller.client
    mac = json.loads(router.run("ip", "-json", "link", "show", "dsl").stdout)[0]["address"]
    active = client.get("terminals", "camera")["active_uplink"]
    client.set_active("camera", "dsl")
    yield wide
    router.run("ip", "link", "set", "dsl", "down")
    router_at_dsl(router, mac)
    client.set_active("camera", active)


def test_a_next_hop_with_a_new_mac_is_learned(by_dsl: GatewayLab) -> None:
    """A new router announces itself. The controller asks for a silent one within half a minute."""
    router, camera = by_dsl.net.machine("router"), by_dsl.net.machine("camera")
    source = both(50, 5)
    with snooping(BRIDGE) as snoop:
        router.run("ip", "link", "set", "dsl", "down")
        snoop.wait("OFPT_PORT_STATUS", "LINK_DOWN")
        router_at_dsl(router, NEW_MAC)
        for address in source:
            until(lambda address=address: reaches(camera, address, server(address)), f"{address} is heard", UNASKED_S)  # type: ignore[misc]
        snoop.settled()
        assert snoop.modifications().keys() == {"OFPT_GROUP_MOD"}
    (dsl,) = [one for one in by_dsl.controller.client.get("gateways", "wide")["uplinks"] if one["name"] == "dsl"]
    assert {hop["mac"] for hop in dsl["next_hops"]} == {NEW_MAC}
    with arrivals(router, "dsl") as seen:
        pings(camera, source[0], SERVER4)
        assert seen.since()["dsl", "ping"] >= 3
