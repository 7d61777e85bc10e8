# SPDX-License-Identifier: Apache-2.0
"""The addresses beyond next hops that tell a dead uplink from a silent server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.edges.config.document import Node
from controller.model.config import Site, Subnet
from controller.model.traffic import Address, Family
from controller.model.uplink import Uplink

MOST_REACHED = 4  # each question goes to all


def reach_of(place: Node, uplinks: tuple[Uplink, ...], subnets: tuple[Subnet, ...]) -> tuple[Address, ...]:
    inside = [own.network for uplink in uplinks for own in uplink.addresses]
    inside += [own.network for subnet in subnets for own in subnet.gateways]
    found: list[Address] = []
    for each in place.each(MOST_REACHED, "addresses"):
        address = each.address()
        if address in found:
            raise each.wrong("each address once")
        if any(address in network for network in inside):
            raise each.wrong("an address beyond the next hops: this one is in a network of the site")
        if not any(_leads_to(uplink, address) for uplink in uplinks):
            raise each.wrong(f"an address that an uplink leads to: none has an IPv{address.version} next hop")
        found.append(address)
    if not found:
        raise place.wrong("at least one address, or no such key")
    return tuple(found)


def reaching(uplink: Uplink, targets: Iterable[Address]) -> Uplink:
    return replace(uplink, reach=(*uplink.reach, *(each for each in targets if _leads_to(uplink, each))))


def reaching_peer(site: Site, peer: Site) -> Site:
    """Return the site, with the peer's ends as targets. A next hop is asked anyway."""
    ends = {uplink.name: tuple(own.ip for own in uplink.addresses) for uplink in peer.uplinks}
    uplinks = (
        reaching(uplink, (end for end in ends.get(uplink.name, ()) if not _is_next_hop(uplink, end)))
        for uplink in site.uplinks
    )
    return replace(site, uplinks=tuple(uplinks))


def _leads_to(uplink: Uplink, address: Address) -> bool:
    family = Family.of(address)
    return uplink.address(family) is not None and uplink.next_hop(family) is not None


def _is_next_hop(uplink: Uplink, address: Address) -> bool:
    return any(hop.address == address for hop in uplink.next_hops)
