"""Whom a packet from outside cannot be of: what comes in by an uplink in such a name is somebody else's (RFC 2827)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from controller.model import Address, Family, Site
from controller.program import written


def own(site: Site) -> tuple[Address, ...]:
    """The gateway's own addresses, those of its uplinks first."""
    outside = (each.ip for uplink in site.uplinks for each in uplink.addresses)
    inside = (each.ip for subnet in site.subnets for each in subnet.gateways)
    return (*outside, *inside)


@lru_cache(maxsize=256)
def unbelieved(site: Site, family: Family) -> tuple[str, ...]:
    """The inside, the gateway itself, and what no network may carry; no two overlap."""
    inside = (each.network for subnet in site.subnets for each in subnet.gateways)
    networks = [*inside, *(ip_network(each) for each in own(site)), *map(ip_network, family.never_routed)]
    found: Iterator[IPv4Network] | Iterator[IPv6Network]
    if family is Family.IPV4:
        found = collapse_addresses(each for each in networks if isinstance(each, IPv4Network))
    else:
        found = collapse_addresses(each for each in networks if isinstance(each, IPv6Network))
    return tuple(map(written, found))
