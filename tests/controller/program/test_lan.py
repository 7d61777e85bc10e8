# SPDX-License-Identifier: Apache-2.0
"""A LAN that the host serves: its devices need no entry, and those with one keep their own mode."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.config import Mode, Site
from controller.model.in_force import InForce, Known
from controller.model.observed import Observed, Port
from controller.model.overrides import Overrides
from controller.model.relaying import BRIDGE_MAC, HOST_MAC
from controller.program.compile import compile
from controller.program.readback import remembered
from tests.controller import sites
from tests.controller.edges.config.test_load import is_refused
from tests.controller.program.test_compile import leaves
from tests.fakes.packet import arp_request, tcp, udp
from tests.fakes.switch import FakeSwitch

HOP = "0a:00:00:00:00:c8"
WEB, WEB6 = "198.51.100.7", "2001:db8::7"
GUEST, GUEST6, CONSOLE = "192.168.8.57", "fd00:8::57", "192.168.8.20"


def uplink(number: int, own: int, hop: int, port: str) -> dict[str, Any]:
    return {
        "port": port,
        "addresses": [f"10.99.{number}.{own}/30", f"fd00:99:{number}::{own}/64"],
        "next_hops": [{"address": f"10.99.{number}.{hop}"}, {"address": f"fd00:99:{number}::{hop}"}],
    }


def document() -> dict[str, Any]:
    return {
        "sites": {
            "home": {
                "dpid": "0000000000000001",
                "classes": {"voip": {"protocols": ["udp"], "ports": ["10000-10015"]}},
                "uplinks": {"fibre": uplink(1, 2, 1, "t1"), "lte": uplink(2, 2, 1, "t2")},
                "subnets": {
                    "lan": {"gateways": ["192.168.8.1/24", "fd00:8::1/64"], "device": "enp3s0", "port": "ve-home"}
                },
                "terminals": {
                    "console": {"mode": "single", "addresses": [{"address": CONSOLE, "mac": "08:00:27:5d:01:9e"}]},
                    "lan": {"mode": "bicast", "modes": {"voip": "single"}},
                },
            },
            "far": {
                "dpid": "0000000000000002",
                "mirrors": "home",
                "uplinks": {"fibre": uplink(1, 1, 2, "f1"), "lte": uplink(2, 1, 2, "f2")},
                "subnets": {"beyond": {"gateways": ["10.98.0.1/30", "fd00:98::1/64"]}},
                "terminals": {
                    "internet": {
                        "exit": "host",
                        "addresses": [{"address": a, "port": "ve-far"} for a in ("10.98.0.2", "fd00:98::2")],
                    }
                },
            },
        },
    }


def ports(site: Site) -> dict[str, Port]:
    lans = {subnet.lan.port for subnet in site.subnets if subnet.lan}
    macs = {name: BRIDGE_MAC if name in lans else f"02:00:00:00:00:{at:02x}" for at, name in enumerate(site.ports, 1)}
    return {name: Port(at, macs[name], True) for at, name in enumerate(site.ports, 1)}


def switch_of(site: Site, modes: dict[str, Mode] | None = None, active: dict[str, str] | None = None) -> FakeSwitch:
    hops = {(each.port, hop.address): HOP for each in site.uplinks for hop in each.next_hops}
    hosts = {
        (at.port, at.host): HOP
        for each in site.terminals
        for at in each.addresses
        if at.host is not None and not at.mac
    }
    known = Known(InForce(Overrides(modes or {}, active or {})), Observed(ports(site), hops | hosts))
    return FakeSwitch(ports(site)).load(compile(site, known))


@pytest.fixture
def home() -> Site:
    return sites.loaded(document()).sites[0]


@pytest.fixture
def far() -> Site:
    return sites.loaded(document()).sites[1]


def numbers(site: Site, *names: str) -> set[int]:
    return {ports(site)[name].number for name in names}


@pytest.mark.parametrize(("source", "target"), [(GUEST, WEB), (GUEST6, WEB6), ("192.168.8.1", WEB)])
def test_packets_of_unlisted_devices_leave_by_both_uplinks(home: Site, source: str, target: str) -> None:
    (inside,) = numbers(home, "ve-home")
    sent = leaves(switch_of(home), tcp(source, target, eth_src=HOST_MAC, eth_dst=BRIDGE_MAC), inside)
    assert set(sent) == numbers(home, "t1", "t2")


def test_listed_device_has_its_own_mode(home: Site) -> None:
    (inside,) = numbers(home, "ve-home")
    sent = leaves(switch_of(home), tcp(CONSOLE, WEB, eth_src=HOST_MAC, eth_dst=BRIDGE_MAC), inside)
    assert set(sent) == numbers(home, "t1")


def test_class_of_the_lan_has_no_effect_on_listed_devices(home: Site) -> None:
    (inside,) = numbers(home, "ve-home")
    switch = switch_of(home, {"console": Mode.BICAST})
    for source, uplinks in ((GUEST, ("t1",)), (CONSOLE, ("t1", "t2"))):
        call = udp(source, WEB, eth_src=HOST_MAC, eth_dst=BRIDGE_MAC, udp_dst=10003)
        assert set(leaves(switch, call, inside)) == numbers(home, *uplinks)


@pytest.mark.parametrize(("source", "target"), [(WEB, GUEST), (WEB6, GUEST6), (WEB, CONSOLE), (WEB, "192.168.8.1")])
def test_packets_to_the_lan_go_to_the_host(home: Site, source: str, target: str) -> None:
    (fibre,) = numbers(home, "t1")
    (inside,) = numbers(home, "ve-home")
    (sent,) = leaves(switch_of(home), tcp(source, target, eth_dst=ports(home)["t1"].mac), fibre).items()
    assert (sent[0], sent[1].eth_dst) == (inside, HOST_MAC)


def test_bridge_does_not_answer_for_the_hosts_address(home: Site) -> None:
    (inside,) = numbers(home, "ve-home")
    assert not leaves(switch_of(home), arp_request("192.168.8.57", "192.168.8.1"), inside)


def test_forged_lan_source_from_an_uplink_is_dropped(home: Site) -> None:
    (fibre,) = numbers(home, "t1")
    assert not leaves(switch_of(home), tcp(GUEST, "192.168.8.58", eth_dst=ports(home)["t1"].mac), fibre)


@pytest.mark.parametrize(("target", "uplinks"), [(GUEST, ("f1", "f2")), (GUEST6, ("f1", "f2")), (CONSOLE, ("f1",))])
def test_far_site_returns_packets_by_the_devices_mode(far: Site, target: str, uplinks: tuple[str, ...]) -> None:
    (inside,) = numbers(far, "ve-far")
    source = WEB6 if ":" in target else WEB
    sent = leaves(switch_of(far), tcp(source, target, eth_src=HOP, eth_dst=ports(far)["ve-far"].mac), inside)
    assert set(sent) == numbers(far, *uplinks)


@pytest.mark.parametrize("source", [GUEST, CONSOLE])
def test_far_site_leads_devices_to_the_internet(far: Site, source: str) -> None:
    (fibre,) = numbers(far, "f1")
    assert set(leaves(switch_of(far), tcp(source, WEB, eth_dst=ports(far)["f1"].mac), fibre)) == numbers(far, "ve-far")


def test_site_needs_no_terminals() -> None:
    written = document()
    del written["sites"]["home"]["terminals"]
    (lan,) = sites.loaded(written).sites[0].terminals
    assert (lan.name, lan.mode) == ("lan", Mode.AUTO)


def test_without_a_peer_site_nothing_of_the_lan_is_copied() -> None:
    written = document()
    del written["sites"]["far"], written["sites"]["home"]["terminals"]
    (lan,) = sites.loaded(written).sites[0].terminals
    assert lan.mode is Mode.SINGLE


def test_nothing_is_learned_of_a_lan(home: Site) -> None:
    switch = switch_of(home)
    found = remembered(home, ports(home), switch.installed().program.groups)
    assert {name for name, _ in found} == {"t1", "t2", "ve-home"}
    assert {str(address) for name, address in found if name == "ve-home"} == {CONSOLE}


@pytest.mark.parametrize(
    ("change", "where", "expected"),
    [
        (lambda home: home["subnets"]["lan"].pop("port"), "subnets.lan.port", "this key is required"),
        (lambda home: home["subnets"]["lan"].pop("device"), "subnets.lan.device", "this key is required"),
        (lambda home: home["subnets"]["lan"].update(port="a-longer-name-"), "subnets.lan.port", "at most 13"),
        (lambda home: home["subnets"]["lan"].update(port="t1"), "subnets.lan.port", "not also at"),
        (lambda home: home["subnets"]["lan"].update(device="t1"), "subnets.lan.device", "not also at"),
        (lambda home: home["terminals"]["lan"].update(addresses=[]), "terminals.lan.addresses", "one of the keys"),
        (lambda home: home["terminals"]["lan"].update(relayed="true"), "terminals.lan.relayed", "one of the keys"),
        (
            lambda home: home["terminals"]["console"]["addresses"][0].update(port="eth9"),
            "console.addresses[0].port",
            "the host serves the subnet lan",
        ),
    ],
)
def test_invalid_lan_is_refused(change: Any, where: str, expected: str) -> None:
    written = document()
    change(written["sites"]["home"])
    is_refused(written, where, expected)


def test_agents_may_connect_to_the_hosts_address_in_the_lan() -> None:
    written = document()
    written["controller"] = {"agents": {"listen": "10.99.1.2:8655"}}
    is_refused(written, "controller.agents.listen", "the bridge answers packets to this address")
    written["controller"] = {"agents": {"listen": "192.168.8.1:8655"}}
    sites.loaded(written)


def alone() -> dict[str, Any]:
    written = document()
    del written["sites"]["far"]
    for name, device in (("fibre", "enp1s0"), ("lte", "wwan0")):
        written["sites"]["home"]["uplinks"][name] |= {"kind": "host", "device": device}
    return written


def test_uplink_of_kind_host_is_an_ethernet_to_the_bridge() -> None:
    site = sites.loaded(alone()).sites[0]
    assert [(each.kind, each.device) for each in site.uplinks] == [("host", "enp1s0"), ("host", "wwan0")]
    (inside,) = numbers(site, "ve-home")
    sent = leaves(switch_of(site), tcp(CONSOLE, WEB, eth_src=HOST_MAC, eth_dst=BRIDGE_MAC), inside)
    assert set(sent) == numbers(site, "t1")


@pytest.mark.parametrize(
    ("change", "where", "expected"),
    [
        (lambda lte: lte.pop("device"), "uplinks.lte.device", "the interface by which the host leads on"),
        (lambda lte: lte.update(device="enp1s0"), "uplinks.lte.device", "not also at"),
        (lambda lte: lte.update(device="enp3s0"), "subnets.lan.device", "not also at"),
        (lambda lte: lte.update(port="a-longer-name-"), "uplinks.lte.port", "at most 13"),
        (lambda lte: lte.update(remote="203.0.113.9"), "uplinks.lte.remote", "this kind has none"),
    ],
)
def test_invalid_uplink_of_kind_host_is_refused(change: Any, where: str, expected: str) -> None:
    written = alone()
    change(written["sites"]["home"]["uplinks"]["lte"])
    is_refused(written, where, expected)


def test_uplink_of_kind_host_has_no_peer_site() -> None:
    written = document()
    for site, device in (("home", "enp1s0"), ("far", "eth0")):
        written["sites"][site]["uplinks"]["fibre"] |= {"kind": "host", "device": device}
    is_refused(written, "uplinks.fibre.kind", "a NAT is between")
