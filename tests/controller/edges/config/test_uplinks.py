# SPDX-License-Identifier: Apache-2.0
"""`measure` at an uplink: valid values and places."""

from __future__ import annotations

from copy import deepcopy
from ipaddress import ip_address
from typing import Any

import pytest

from controller.model.config import ConfigError
from controller.model.uplink import Measure
from tests.controller import sites
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
    (
        "the other bridge's",
        (*OF_WIFI, "remote"),
        "192.168.0.1",
        "wifi.measure.remote",
        "an address of the host of far",
    ),
]


@pytest.mark.parametrize(("at", "value", "where", "expected"), [each[1:] for each in WRONG], ids=[w[0] for w in WRONG])
def test_invalid_measurement_is_refused_with_its_place(
    at: tuple[str, ...], value: Any, where: str, expected: str
) -> None:
    written = inner = measured()
    *way, last = at
    for step in way:
        inner = inner[step]
    if value is None:
        del inner[last]
    else:
        inner[last] = deepcopy(value)
    with pytest.raises(ConfigError) as error:
        sites.loaded(written)
    assert where in str(error.value) and expected in str(error.value)


def test_measure_at_a_tunnel_is_refused() -> None:
    written = tunnelled()
    written["sites"]["home"]["uplinks"]["wifi"]["measure"] = dict(BETWEEN)
    with pytest.raises(ConfigError, match=r"wifi.measure.*no `measure` at an uplink of kind tunnel"):
        sites.loaded(written)
