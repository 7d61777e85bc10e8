# SPDX-License-Identifier: Apache-2.0
"""Configuration of relaying: the addresses derived from it, their use at the other end, and invalid values."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from controller.model.config import Mode, Site, locals_of
from controller.model.in_force import InForce, Known
from controller.model.observed import Observed
from controller.model.overrides import Overrides
from controller.model.relaying import Choosing, Fallback
from controller.program.compile import compile
from controller.program.diff import diff
from tests.controller import relayed_site, sites
from tests.controller.edges.config.test_load import is_refused, with_change
from tests.controller.features.peer_sites.test_peer_program import FAR, SERVERS, to
from tests.controller.relayed_site import PORTS
from tests.fakes.switch import FakeSwitch


def pair() -> dict[str, Any]:
    written = relayed_site.document()
    written["sites"]["far"] = deepcopy(FAR)
    return written


def locals_at(site: Site, name: str, first: str | None = None) -> list[tuple[str, list[str]]]:
    (terminal,) = (each for each in site.terminals if each.name == name)
    return [(uplink, [str(each) for each in addresses]) for uplink, addresses in locals_of(site, terminal, first)]


def test_host_addresses_have_the_terminals_host_bits() -> None:
    """The addresses of the best uplink come first."""
    site = relayed_site.site()
    by_wifi, by_lte = ("wifi", ["10.97.1.7", "fd00:971::7"]), ("lte", ["10.97.2.7", "fd00:972::7"])
    assert locals_at(site, "phone") == [by_lte, by_wifi]  # lte is the phone's default
    assert locals_at(site, "phone", first="wifi") == [by_wifi, by_lte]
    assert locals_at(site, "laptop") == []


def test_missing_family_uses_the_host_bits_of_the_other() -> None:
    written = relayed_site.document()
    written["sites"]["home"]["terminals"]["phone"]["addresses"].pop()
    assert locals_at(sites.loaded(written).sites[0], "phone", "wifi")[0] == ("wifi", ["10.97.1.7", "fd00:971::a01:7"])


def test_relaying_defaults_to_the_nearest_relay_and_direct() -> None:
    written = relayed_site.document()
    del written["sites"]["home"]["relaying"]["except"]
    relaying = sites.loaded(written).sites[0].relaying
    assert relaying and (relaying.choose, relaying.fallback) == (Choosing.NEAREST, Fallback.DIRECT)
    assert relaying.excepted == ()
    assert sites.paper_site().relaying is None


def test_mirroring_site_answers_relays_in_the_terminals_mode() -> None:
    home, far = sites.loaded(pair()).sites
    assert home.relaying and set(map(str, home.relaying.excepted)) >= {"203.0.113.0/24", "192.168.0.0/24"}
    switch = FakeSwitch(PORTS)
    in_force = InForce(Overrides({"client": Mode.SINGLE, "phone": Mode.BICAST}, {"client": "lte"}))
    for change in diff(switch.installed().program, compile(far, Known(in_force, Observed(PORTS, sites.learned(far))))):
        switch.change(change)
    wifi, lte = PORTS["wifi0"].number, PORTS["lte0"].number
    for address, expected in {"10.97.1.7": {wifi, lte}, "fd00:972::7": {wifi, lte}, "10.97.1.3": {lte}}.items():
        assert {each.port for each in switch.send(to(address), SERVERS).sent} == expected


def test_relaying_networks_of_two_sites_may_not_overlap() -> None:
    written = relayed_site.document()
    cabin = written["sites"]["cabin"] = deepcopy(written["sites"]["home"])
    cabin["dpid"] = FAR["dpid"]
    for name in list(cabin["terminals"]):
        cabin["terminals"][f"{name}-2"] = cabin["terminals"].pop(name)
    where = "sites.cabin.relaying.uplinks.wifi.gateways: found '10.97.1.1/24'"
    is_refused(written, where, "does not overlap 10.97.1.0/24 at sites.home.relaying.uplinks.wifi.gateways")
    for uplink, number in (("wifi", 3), ("lte", 4)):
        cabin["relaying"]["uplinks"][uplink]["gateways"] = [f"10.97.{number}.1/24", f"fd00:97{number}::1/64"]
    assert len(sites.loaded(written).sites) == 2


def wide() -> dict[str, Any]:
    """Return the site with room in its LAN for addresses with the host bits of any relaying network."""
    written = relayed_site.document()
    written["sites"]["home"]["subnets"]["lan"]["gateways"] = ["10.1.255.254/16", "fd00:1::1/64"]
    return written


HOME = ("sites", "home")
AT = (*HOME, "relaying")
WIFI = (*AT, "uplinks", "wifi")
PHONE, LAPTOP = ((*HOME, "terminals", name) for name in ("phone", "laptop"))
PHONE_IS = (*PHONE, "addresses", 0, "address")
BAD: list[tuple[tuple[str | int, ...], Any, str, str]] = [
    ((*AT, "port"), None, "relaying.port: found nothing", "a value: this key is required"),
    ((*AT, "port"), "relay-at-home1", "relaying.port: found 'relay-at-home1'", "at most 13 characters"),
    ((*WIFI, "port"), "wifi0", "relaying.uplinks.wifi.port: found 'wifi0'", "not also at sites.home.uplinks.wifi.port"),
    ((*WIFI, "port"), "lan0", "terminals.phone.addresses[0].port: found 'lan0'",
     "also at sites.home.relaying.uplinks.wifi.port"),
    ((*AT, "uplinks", "lte"), None, "relaying.uplinks: found {'wifi'", "every uplink of the site: lte is"),
    ((*AT, "uplinks", "dsl"), {}, "relaying.uplinks.dsl: found 'dsl'", "uplinks wifi, lte"),
    ((*AT, "choose"), "best", "relaying.choose: found 'best'", "one of nearest, ping, traceroute"),
    ((*AT, "except"), ["10.0.0.1/8"], "relaying.except[0]: found '10.0.0.1/8'", "such as 203.0"),
    ((*AT, "except"), ["192.0.2.0/24"] * 2, "relaying.except: found", "each once"),
    ((*WIFI, "gateways"), ["10.97.1.1/24"], "relaying.uplinks.lte.gateways: found", "the same families as at wifi"),
    ((*WIFI, "gateways"), ["10.97.2.9/24", "fd00:971::1/64"], "relaying.uplinks.lte.gateways: found '10.97.2.1/24'",
     "does not overlap"),
    ((*HOME, "uplinks", "wifi", "next_hops", 1), None, "relaying.uplinks.wifi.gateways: found",
     "no IPv6: the uplink wifi has no next hop for it"),
    (PHONE_IS, "10.1.7.1", "terminals.phone.addresses: found '10.1.7.1'", "10.97.1.1 in the relaying network of wifi"),
    (PHONE_IS, "10.1.7.255", "terminals.phone.addresses: found '10.1.7.255'", "is reserved for the network"),
    (PHONE_IS, "10.1.7.3", "terminals.phone.addresses: found '10.1.7.3'",
     "10.97.1.3 in the relaying network of wifi (10.97.1.0/24) is client's at sites.home.terminals.client"),
    (AT, None, "terminals.client.relayed: found 'true'", "`relaying` at sites.home, or false"),
    (LAPTOP, {"relayed": "true", "addresses": [{"address": "10.1.0.7", "port": "lan0"}]},
     "terminals.laptop.addresses[0].address: found '10.1.0.7'", "an address that no other entry has"),
    (("controller",), None, "sites.home.relaying: found", "expected `controller.agents` in the file"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "where", "expected"), BAD, ids=[row[3] for row in BAD])
def test_invalid_relaying_is_refused_with_place_and_expectation(
    path: tuple[str | int, ...], value: Any, where: str, expected: str
) -> None:
    is_refused(with_change(path, value, wide), where, expected)


def test_relaying_needs_the_site_of_the_terminals() -> None:
    written = pair()
    written["sites"]["far"]["relaying"] = written["sites"]["home"].pop("relaying")
    for terminal in written["sites"]["home"]["terminals"].values():
        terminal.pop("relayed", None)
    is_refused(written, "sites.far.relaying: found ", "expected `relaying` at home, which this site mirrors")
