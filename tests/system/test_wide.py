# SPDX-License-Identifier: Apache-2.0
"""Three uplinks and four terminals of two families find each other without a configured MAC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller.edges.config import load
from lab.stage.command import run
from lab.stage.nodes import Machine
from tests.system.conftest import WIDE, GatewayLab
from tests.system.evidence import assert_reaches, flows, reaches, snooping, until
from topologies.wide import BRIDGE, SERVER4, SERVER6, UPLINKS, both

SITE = load.load(str(WIDE)).sites[0]
ADDRESSES = {terminal.name: [str(place.address) for place in terminal.addresses] for terminal in SITE.terminals}
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


def mac_of_port(name: str) -> str:
    link = json.loads(run("ip", "-json", "link", "show", name).stdout)
    return str(link[0]["address"])


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
