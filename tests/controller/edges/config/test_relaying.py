# SPDX-License-Identifier: Apache-2.0
"""Configuration of relaying: the addresses derived from it, their use at the other end, and invalid values."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from controller.model.config import ConfigError, Mode, Site, locals_of
from controller.model.known import Known, Observed, Wanted
from controller.model.relaying import Choosing, Fallback
from controller.program.compile import compile
from controller.program.diff import diff
from tests.controller import relayed_site, sites
from tests.controller.features.peer_sites.test_peer_program import FAR, SERVERS, to
from tests.controller.relayed_site import PORTS
from tests.fakes.switch import FakeSwitch

Change = Callable[[dict[str, Any]], object]


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
    wanted = Wanted({"client": Mode.SINGLE, "phone": Mode.BICAST}, {"client": "lte"})
    for change in diff(switch.installed().program, compile(far, Known(wanted, Observed(PORTS, sites.learned(far))))):
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
    with pytest.raises(ConfigError) as refused:
        sites.loaded(written)
    assert refused.value.where == "sites.cabin.relaying.uplinks.wifi.gateways"
    assert refused.value.value == "10.97.1.1/24"
    assert "does not overlap 10.97.1.0/24 at sites.home.relaying.uplinks.wifi.gateways" in str(refused.value)
    for uplink, number in (("wifi", 3), ("lte", 4)):
        gateways = [f"10.97.{number}.1/24", f"fd00:97{number}::1/64"]
        cabin["relaying"]["uplinks"][uplink]["gateways"] = gateways
    assert len(sites.loaded(written).sites) == 2


def relaying(change: Change) -> Change:
    return lambda home: change(home["relaying"])


def wifi(**changed: object) -> Change:
    return lambda home: home["relaying"]["uplinks"]["wifi"].update(changed)


def phone_is(address: str) -> Change:
    def change(home: dict[str, Any]) -> None:
        home["subnets"]["lan"]["gateways"] = ["10.1.255.254/16", "fd00:1::1/64"]
        home["terminals"]["phone"]["addresses"][0]["address"] = address

    return change


@pytest.mark.parametrize(
    ("change", "where", "found", "expected"),
    [
        (relaying(lambda at: at.pop("port")), "relaying.port", "nothing", "a value: this key is required"),
        (
            relaying(lambda at: at.update(port="relay-at-home1")),
            "relaying.port",
            "relay-at-home1",
            "at most 13 characters",
        ),
        (wifi(port="wifi0"), "relaying.uplinks.wifi.port", "wifi0", "not also at sites.home.uplinks.wifi.port"),
        (
            wifi(port="lan0"),
            "terminals.phone.addresses[0].port",
            "lan0",
            "also at sites.home.relaying.uplinks.wifi.port",
        ),
        (
            relaying(lambda at: at["uplinks"].pop("lte")),
            "relaying.uplinks",
            "{'wifi'",
            "every uplink of the site: lte is",
        ),
        (relaying(lambda at: at["uplinks"].update(dsl={})), "relaying.uplinks.dsl", "dsl", "uplinks wifi, lte"),
        (relaying(lambda at: at.update(choose="best")), "relaying.choose", "best", "one of nearest, ping, traceroute"),
        (
            relaying(lambda at: at.update({"except": ["10.0.0.1/8"]})),
            "relaying.except[0]",
            "10.0.0.1/8",
            "such as 203.0",
        ),
        (relaying(lambda at: at.update({"except": ["192.0.2.0/24"] * 2})), "relaying.except", "", "each once"),
        (wifi(gateways=["10.97.1.1/24"]), "relaying.uplinks.lte.gateways", "", "the same families as at wifi"),
        (
            wifi(gateways=["10.97.2.9/24", "fd00:971::1/64"]),
            "relaying.uplinks.lte.gateways",
            "10.97.2.1/24",
            "does not overlap",
        ),
        (
            lambda home: home["uplinks"]["wifi"]["next_hops"].pop(),
            "relaying.uplinks.wifi.gateways",
            "",
            "no IPv6: the uplink wifi has no next hop for it",
        ),
        (phone_is("10.1.7.1"), "terminals.phone.addresses", "10.1.7.1", "10.97.1.1 in the relaying network of wifi"),
        (
            phone_is("10.1.7.255"),
            "terminals.phone.addresses",
            "10.1.7.255",
            "(10.97.1.0/24) is reserved for the network",
        ),
        (
            phone_is("10.1.7.3"),
            "terminals.phone.addresses",
            "10.1.7.3",
            "10.97.1.3 in the relaying network of wifi (10.97.1.0/24) is client's at sites.home.terminals.client",
        ),
        (lambda home: home.pop("relaying"), "terminals.client.relayed", "true", "`relaying` at sites.home, or false"),
        (
            lambda home: home["terminals"]["laptop"].update(
                relayed="true", addresses=home["terminals"]["phone"]["addresses"][:1]
            ),
            "terminals.laptop.addresses[0].address",
            "10.1.0.7",
            "an address that no other entry has",
        ),
    ],
)
def test_invalid_relaying_is_refused_with_place_and_expectation(
    change: Change, where: str, found: str, expected: str
) -> None:
    written = relayed_site.document()
    change(written["sites"]["home"])
    with pytest.raises(ConfigError) as refused:
        sites.loaded(written)
    said = str(refused.value)
    assert f"{where}: found" in said and expected in said, said
    assert found in said.partition("expected")[0], said


def test_relaying_needs_agents_and_the_site_of_the_terminals() -> None:
    written = pair()
    written["sites"]["far"]["relaying"] = written["sites"]["home"].pop("relaying")
    for terminal in written["sites"]["home"]["terminals"].values():
        terminal.pop("relayed", None)
    with pytest.raises(
        ConfigError, match=r"sites\.far\.relaying: found .*, expected `relaying` at home, which this site mirrors"
    ):
        sites.loaded(written)
    written = relayed_site.document()
    del written["controller"]
    with pytest.raises(ConfigError, match=r"sites\.home\.relaying: .*expected `controller\.agents` in the file"):
        sites.loaded(written)
