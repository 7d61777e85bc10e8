# SPDX-License-Identifier: Apache-2.0
"""`reach` of a site lists addresses to probe beyond the next hops."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from controller.model.config import ConfigError, Site
from tests.controller import sites
from tests.controller.features.peer_sites.test_peer_program import document


def reaching(addresses: Sequence[str]) -> Site:
    written = sites.document()
    written["sites"]["home"]["reach"] = list(addresses)
    return sites.loaded(written).sites[0]


def test_uplink_probes_the_addresses_of_its_families() -> None:
    written = sites.document()
    lte = written["sites"]["home"]["uplinks"]["lte"]
    lte["addresses"], lte["next_hops"] = lte["addresses"][:1], lte["next_hops"][:1]
    del written["sites"]["home"]["subnets"]["lte-side"]["gateways"][1]
    written["sites"]["home"]["reach"] = ["203.0.113.5", "2001:db8::5"]
    home = sites.loaded(written).sites[0]
    v4, v6 = ip_address("203.0.113.5"), ip_address("2001:db8::5")
    assert home.uplink("wifi").reach == (v4, v6) and home.uplink("lte").reach == (v4,)


@pytest.mark.parametrize(
    "addresses, expected",
    [
        ([], "at least one address"),
        (["203.0.113.5"] * 2, "each address once"),
        (["192.168.100.1"], "beyond the next hops"),
        (["192.168.110.3"], "beyond the next hops"),
        ([f"203.0.113.{number}" for number in range(5)], "at most 4 addresses"),
        (["example.net"], "an IPv4 or IPv6 address"),
    ],
)
def test_invalid_reach_is_refused(addresses: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as refused:
        reaching(addresses)
    assert refused.value.where.startswith("sites.home.reach")


def test_peer_is_probed_unless_it_is_the_next_hop() -> None:
    written = document()
    wifi = written["sites"]["far"]["uplinks"]["wifi"]
    wifi["addresses"][0], wifi["next_hops"][0] = "198.51.100.9/24", {"address": "198.51.100.1"}
    home, far = sites.loaded(written).sites
    assert home.uplink("wifi").reach == (ip_address("198.51.100.9"),)
    assert ip_address("192.168.100.2") in far.uplink("wifi").reach
    assert home.uplink("lte").reach == (), "its next hops are the peer's own addresses"
