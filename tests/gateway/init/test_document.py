# SPDX-License-Identifier: Apache-2.0
"""The facts of both machines become a gateway.yaml that the controller takes."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network, IPv6Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.edges.config.load import parse
from controller.model.config import Datapath, Mode
from gateway.host import HostError
from gateway.init import facts
from gateway.init.document import FarFacts, at_home, new_prefix, ports_alone, prefix_of, text, text_alone
from gateway.init.facts import Ambiguous, Device, HomeFacts, home_facts
from gateway.init.home import bundle

HOME = HomeFacts((("fibre", "enp1s0"), ("lte", "wwan0")), "enp3s0", "192.168.8.1/24", "netdev")
FAR = FarFacts("203.0.113.9", "eth0", True, "system", "fd12:3456:789a")


def own(text: str) -> IPv4Interface:
    return IPv4Interface(text)


FIBRE = Device("enp1s0", (own("198.51.100.10/24"),), metric=100)
LTE = Device("wwan0", (own("192.0.2.10/24"),), metric=200)
LEFT = Device("enp3s0")
OTHER = Device("enp4s0")
NOT_LANS = (
    *(Device("wlan0", wireless=True), Device("br0", physical=False), Device("enp9s0", master="bond0")),
    *(Device("tun0", ethernet=False), Device("ve-home")),
)


@pytest.mark.parametrize("prefix", ["", FAR.prefix])
@pytest.mark.parametrize("own_address", [True, False])
def test_document_is_valid_at_both_machines(prefix: str, own_address: bool) -> None:
    far = replace(FAR, own=own_address, prefix=prefix)
    there, here = parse(text(HOME, far)), parse(text(HOME, at_home(far)))
    assert there.sites == here.sites
    assert str(here.settings.openflow) == "203.0.113.9:6653"
    assert str(there.settings.openflow) == ("203.0.113.9:6653" if own_address else "0.0.0.0:6653")
    home, beyond = there.sites
    assert [(each.name, each.tunnel.device) for each in home.uplinks if each.tunnel] == list(HOME.uplinks)
    assert (home.datapath, beyond.datapath) == (Datapath.NETDEV, Datapath.SYSTEM)
    assert prefix_of(there) == prefix
    (lan,) = home.terminals
    assert (lan.mode, dict(lan.modes)) == (Mode.AUTO, {"calls": Mode.BICAST})
    assert text(HOME, far).startswith("# Made by `bicast init`")


def test_each_home_gets_a_local_prefix_of_its_own() -> None:
    first, second = (IPv6Network(f"{new_prefix()}::/48") for _ in range(2))
    assert first != second
    assert first.subnet_of(IPv6Network("fd00::/8"))


def test_document_without_a_far_site_is_valid() -> None:
    config = parse(text_alone(HOME))
    (home,) = config.sites
    assert [(each.name, each.kind, each.device) for each in home.uplinks] == [(n, "host", d) for n, d in HOME.uplinks]
    assert [(each.name, each.mode) for each in home.terminals] == [("lan", Mode.SINGLE)]
    assert config.settings.agents is not None
    assert ports_alone(HOME) == [each.port for each in home.uplinks]


def test_document_is_valid_with_odd_names() -> None:
    odd = HomeFacts((("on", "null"), ("1.5", "eth0.7"), ("a", "x:1@y")), "0x1", "10.1.1.1/24", "system")
    home = parse(text(odd, replace(FAR, device="eth0:1"))).sites[0]
    assert [(each.name, each.tunnel.device) for each in home.uplinks if each.tunnel] == list(odd.uplinks)


def test_uplinks_are_the_devices_with_default_routes_by_metric() -> None:
    assert facts.uplinks((LTE, LEFT, FIBRE), ()) == (("enp1s0", "enp1s0"), ("wwan0", "wwan0"))
    assert facts.uplinks((LTE, LEFT, FIBRE), ("lte=wwan0", "enp3s0")) == (("lte", "wwan0"), ("enp3s0", "enp3s0"))


@pytest.mark.parametrize("words", ["a=gone", "=wwan0", "a!b=wwan0", "a=wwan0 a=enp1s0", "a=wwan0 b=wwan0"])
def test_uplinks_refuse_what_does_not_fit(words: str) -> None:
    with pytest.raises(HostError):
        facts.uplinks((LTE, FIBRE), words.split())


def test_uplinks_without_a_default_route_name_the_option() -> None:
    with pytest.raises(HostError, match="--uplink"):
        facts.uplinks((LEFT,), ())


def test_lan_is_the_only_physical_ethernet_device_left() -> None:
    chosen = facts.uplinks((FIBRE, LTE), ())
    assert facts.lan((FIBRE, LTE, LEFT, *NOT_LANS), chosen, None) == "enp3s0"
    assert facts.lan((FIBRE, LTE, LEFT, OTHER), chosen, "enp4s0") == "enp4s0"


def test_lan_asks_for_the_option_where_devices_are_ambiguous() -> None:
    with pytest.raises(Ambiguous, match="--lan") as caught:
        facts.lan((FIBRE, LEFT, OTHER), (("enp1s0", "enp1s0"),), None)
    assert caught.value.options == ("enp3s0", "enp4s0")
    with pytest.raises(HostError, match="--lan"):
        facts.lan((FIBRE, *NOT_LANS), (("enp1s0", "enp1s0"),), None)
    for wrong in ("gone", "enp1s0"):
        with pytest.raises(HostError, match="--lan"):
            facts.lan((FIBRE, LEFT), (("enp1s0", "enp1s0"),), wrong)


def test_lan_network_is_one_that_home_does_not_use() -> None:
    used = replace(FIBRE, addresses=(own("192.168.8.7/24"),))
    assert facts.lan_network((used,), [IPv4Network("192.168.9.0/25")]) == "192.168.10.1/24"
    with pytest.raises(HostError, match="in use"):
        facts.lan_network((), [IPv4Network("192.168.0.0/16")])


def test_public_address_is_the_devices_or_the_given_one() -> None:
    nat = Device("eth0", (own("10.0.0.9/24"),), metric=0)
    assert facts.public_address(replace(nat, addresses=(own("203.0.113.9/24"),)), None) == "203.0.113.9"
    assert facts.public_address(nat, "203.0.113.9") == "203.0.113.9"
    with pytest.raises(HostError, match="--address"):
        facts.public_address(nat, None)
    with pytest.raises(HostError, match="IPv4"):
        facts.public_address(nat, "far.example")
    assert facts.way_out((LEFT, LTE, FIBRE), None) == FIBRE
    with pytest.raises(HostError, match="--device"):
        facts.way_out((LEFT,), None)


def test_facts_survive_the_way_to_the_far_site() -> None:
    message: dict[str, Any] = HOME.message() | {"uplinks": [list(each) for each in HOME.uplinks]}
    assert home_facts(message) == HOME


HOSTILE: list[dict[str, Any]] = [
    {"uplinks": []},
    {"uplinks": [["a", f"d{number}"] for number in range(9)]},
    {"uplinks": [["fibre", "enp1s0"], ["fibre", "wwan0"]]},
    {"uplinks": [["a: {b", "enp1s0"]]},
    {"uplinks": [["fibre", "../../etc"]]},
    {"uplinks": [["fibre\n", "enp1s0"]]},
    {"uplinks": [["fibre", 7]]},
    {"uplinks": {"fibre": "enp1s0"}},
    *({"lan": each} for each in ("enp1s0", "", "a b", "x" * 16, None, "lan}\n")),
    *({"network": each} for each in ("192.168.8.1", "8.8.8.8/24", "192.168.8.0/24", "10.99.1.1/24", "10.0.0.1/8")),
    *({"network": each} for each in (7, "::1/64")),
    *({"datapath": each} for each in ("other", None)),
]


@pytest.mark.parametrize("wrong", HOSTILE)
def test_far_site_refuses_facts_that_do_not_fit(wrong: dict[str, Any]) -> None:
    right = HOME.message() | {"uplinks": [list(each) for each in HOME.uplinks]}
    with pytest.raises(HostError, match="home sent no usable"):
        home_facts(right | wrong)


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=9)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3))


@given(st.dictionaries(st.sampled_from(["uplinks", "lan", "network", "datapath"]), JSON))
def test_facts_of_any_shape_are_taken_or_refused(message: dict[str, Any]) -> None:
    with pytest.raises(HostError):
        home_facts(message)


PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
ANSWER: dict[str, Any] = {
    "gateway": text(HOME, FAR),
    "files": dict.fromkeys(("ca.pem", "switch-1.pem", "switch-1.key"), PEM),
    "join": "203.0.113.9:8656",
    "token": "T.abc",
}


def test_home_takes_a_whole_answer() -> None:
    assert bundle(ANSWER)[2:] == ("203.0.113.9:8656", "T.abc")


@pytest.mark.parametrize(
    "wrong",
    [
        {"gateway": None},
        {"files": {"../../etc/passwd": PEM}},
        {"files": {**ANSWER["files"], "ca-signing.key": PEM}},
        {"files": {**ANSWER["files"], "ca.pem": "text"}},
        *({"join": each} for each in ("far.example:1", "--directory", None)),
        *({"token": each} for each in ("", "two words", 7)),
    ],
)
def test_home_refuses_an_incomplete_answer(wrong: dict[str, Any]) -> None:
    with pytest.raises(HostError, match="incomplete answer"):
        bundle(ANSWER | wrong)
