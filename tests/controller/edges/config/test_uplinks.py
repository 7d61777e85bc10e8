# SPDX-License-Identifier: Apache-2.0
"""`measure` and `reach`: what is measured and probed at an uplink."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from controller.model.uplink import Measure
from tests.controller import sites
from tests.controller.edges.config.test_load import is_refused, with_change
from tests.controller.features.peer_sites.test_peer_program import document
from tests.controller.features.peer_sites.test_tunnels import tunnelled

BETWEEN = {"local": "198.51.100.7", "remote": "203.0.113.9"}
OF_WIFI = ("sites", "home", "uplinks", "wifi", "measure")


def measured() -> dict[str, Any]:
    written = document()
    written["controller"] = {"agents": {}}
    written["sites"]["home"]["uplinks"]["wifi"]["measure"] = dict(BETWEEN)
    return written


def test_uplink_is_measured_between_the_configured_hosts() -> None:
    home, far = sites.loaded(measured()).sites
    assert home.uplink("wifi").measure == Measure(ip_address("198.51.100.7"), ip_address("203.0.113.9"))
    assert home.uplink("lte").measure is None and far.uplink("wifi").measure is None


WRONG: list[tuple[str, tuple[str, ...], Any, str, str]] = [
    ("no other end", ("sites", "far"), None, "wifi.measure", "no `measure`: no site of this file is at the other end"),
    ("no agents", ("controller",), {}, "wifi.measure", "`controller.agents` in the file"),
    ("at both ends", ("sites", "far", "uplinks", "wifi", "measure"), BETWEEN, "wifi.measure", "at one end only"),
    ("one host", (*OF_WIFI, "remote"), "198.51.100.7", "wifi.measure.remote", "differs from `local`"),
    ("two families", (*OF_WIFI, "remote"), "2001:db8::1", "wifi.measure.remote", "an IPv4 address, as `local` is"),
    ("a group", (*OF_WIFI, "remote"), "224.0.0.1", "wifi.measure.remote", "a routable host"),
    ("the bridge's", (*OF_WIFI, "local"), "192.168.100.2", "wifi.measure.local", "an address of the host of home"),
    ("the other's", (*OF_WIFI, "remote"), "192.168.0.1", "wifi.measure.remote", "an address of the host of far"),
]


@pytest.mark.parametrize(("at", "value", "where", "expected"), [each[1:] for each in WRONG], ids=[w[0] for w in WRONG])
def test_invalid_measurement_is_refused_with_its_place(
    at: tuple[str, ...], value: Any, where: str, expected: str
) -> None:
    is_refused(with_change(at, value, measured), where, expected)


def test_measure_at_a_tunnel_is_refused() -> None:
    written = tunnelled()
    written["sites"]["home"]["uplinks"]["wifi"]["measure"] = dict(BETWEEN)
    is_refused(written, "wifi.measure", "no `measure` at an uplink of kind tunnel")


def test_uplink_probes_the_addresses_of_its_families() -> None:
    written = sites.document()
    lte = written["sites"]["home"]["uplinks"]["lte"]
    lte["addresses"], lte["next_hops"] = lte["addresses"][:1], lte["next_hops"][:1]
    del written["sites"]["home"]["subnets"]["lte-side"]["gateways"][1]
    written["sites"]["home"]["reach"] = ["203.0.113.5", "2001:db8::5"]
    home = sites.loaded(written).sites[0]
    v4, v6 = ip_address("203.0.113.5"), ip_address("2001:db8::5")
    assert home.uplink("wifi").reach == (v4, v6) and home.uplink("lte").reach == (v4,)


def test_peer_is_probed_unless_it_is_the_next_hop() -> None:
    written = document()
    wifi = written["sites"]["far"]["uplinks"]["wifi"]
    wifi["addresses"][0], wifi["next_hops"][0] = "198.51.100.9/24", {"address": "198.51.100.1"}
    home, far = sites.loaded(written).sites
    assert home.uplink("wifi").reach == (ip_address("198.51.100.9"),)
    assert ip_address("192.168.100.2") in far.uplink("wifi").reach
    assert home.uplink("lte").reach == (), "its next hops are the peer's own addresses"
