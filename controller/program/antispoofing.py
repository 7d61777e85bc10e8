# SPDX-License-Identifier: Apache-2.0
"""Forged sources (RFC 2827): inside sources from an uplink or the exit, and terminals with another MAC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from controller.model.config import Site, TerminalAddress
from controller.model.traffic import Address, Family, Network
from controller.program.program import Value, written


def own(site: Site) -> tuple[Address, ...]:
    """Return the gateway's own addresses, uplinks first. Those of a LAN are the host's."""
    outside = (each.ip for uplink in site.uplinks for each in uplink.addresses)
    inside = (each.ip for subnet in site.subnets if not subnet.lan for each in subnet.gateways)
    return (*outside, *inside)


def written_mac(place: TerminalAddress) -> dict[str, Value]:
    """Return the match on the source MAC of a terminal's frames. A learned MAC is not matched."""
    return {"eth_src": place.mac} if place.mac else {}


@lru_cache(maxsize=256)
def uplink_forged(site: Site, family: Family) -> tuple[str, ...]:
    """Return the networks that no packet from an uplink may have as source: inside, the gateway's, unroutable ones."""
    return apart(_nowhere_outside(site, family), family)


@lru_cache(maxsize=256)
def not_on_internet(site: Site, family: Family) -> tuple[str, ...]:
    """Return the networks of uplink_forged(), and those of the uplinks and the peer site."""
    return apart((*_nowhere_outside(site, family), *site.networks, *site.networks_there), family)


def _nowhere_outside(site: Site, family: Family) -> tuple[Network, ...]:
    inside = (each.network for subnet in site.subnets for each in subnet.gateways)
    return (*inside, *(ip_network(each) for each in own(site)), *map(ip_network, family.never_routed))


def apart(networks: Iterable[Network], family: Family) -> tuple[str, ...]:
    """Return a family's networks, merged: no packet may match two flows of the same priority."""
    found: Iterator[IPv4Network] | Iterator[IPv6Network]
    if family is Family.IPV4:
        found = collapse_addresses(each for each in networks if isinstance(each, IPv4Network))
    else:
        found = collapse_addresses(each for each in networks if isinstance(each, IPv6Network))
    return tuple(map(written, found))
