"""The boundary of a site: sources that are forged, and the way to the internet beyond the peer site and back.

    ENTRY   at the exit's port, packets with a source outside both sites go straight to LEAVE: they can only be for the
            other site's terminals
    LEAVE   packets of the other site's terminals to the internet go to the exit

An address at either site or between the two is never a source or a destination on the internet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from controller.model.config import Address, Family, Network, Site, TerminalAddress
from controller.program.groups import Served, answered, served
from controller.program.program import DecTtl, Flow, ToGroup, Value, fields, written
from controller.program.tables import (
    ENTRY,
    EXIT_DROP_PRIORITY,
    EXIT_FORGED_PRIORITY,
    EXIT_FORWARD_PRIORITY,
    EXIT_PRIORITY,
    LEAVE,
)

# Forged sources (RFC 2827): an inside source from an uplink or from the exit, or a terminal's address with another MAC
# than gateway.yaml has.


def own(site: Site) -> tuple[Address, ...]:
    """The gateway's own addresses, those of its uplinks first."""
    outside = (each.ip for uplink in site.uplinks for each in uplink.addresses)
    inside = (each.ip for subnet in site.subnets for each in subnet.gateways)
    return (*outside, *inside)


def written_mac(place: TerminalAddress) -> dict[str, Value]:
    """What a frame from there has to match; nothing where the MAC address is learned."""
    return {"eth_src": place.mac} if place.mac else {}


@lru_cache(maxsize=256)
def unbelieved(site: Site, family: Family) -> tuple[str, ...]:
    """The inside, the gateway itself, and what no network may carry."""
    return apart(_nowhere_outside(site, family), family)


@lru_cache(maxsize=256)
def of_no_stranger(site: Site, family: Family) -> tuple[str, ...]:
    """The same, and all that is between here and the other end, and there."""
    return apart((*_nowhere_outside(site, family), *site.networks, *site.networks_there), family)


def _nowhere_outside(site: Site, family: Family) -> tuple[Network, ...]:
    inside = (each.network for subnet in site.subnets for each in subnet.gateways)
    return (*inside, *(ip_network(each) for each in own(site)), *map(ip_network, family.never_routed))


def apart(networks: Iterable[Network], family: Family) -> tuple[str, ...]:
    """Those of a family, joined where they meet: of two flows of one priority, no packet shall meet both."""
    found: Iterator[IPv4Network] | Iterator[IPv6Network]
    if family is Family.IPV4:
        found = collapse_addresses(each for each in networks if isinstance(each, IPv4Network))
    else:
        found = collapse_addresses(each for each in networks if isinstance(each, IPv6Network))
    return tuple(map(written, found))


def exits(site: Site) -> tuple[Served, ...]:
    """The addresses of its exit, one of a family at most."""
    return tuple(each for each in served(site) if each.terminal.exit)


def entering(site: Site, each: Served, in_port: int, mac: str) -> Iterator[Flow]:
    """From beyond, by the exit's port; `mac` is the gateway's there."""
    family = each.family
    for network in of_no_stranger(site, family):
        claimed = fields(in_port=in_port, eth_type=family.eth_type, **{family.source: network})
        yield Flow(ENTRY, EXIT_FORGED_PRIORITY, claimed)
    match = fields(in_port=in_port, eth_dst=mac, eth_type=family.eth_type, **written_mac(each.place))
    yield Flow(ENTRY, EXIT_FORWARD_PRIORITY, match, goto=LEAVE)


def leading_on(site: Site, uplinks: Iterable[int]) -> Iterator[Flow]:
    """By no other port comes what is of an address at the other end, so the port need not be asked for again."""
    to = {each.family: (DecTtl(), ToGroup(each.delivery.group_id)) for each in exits(site)}
    for family in to:
        for in_port in uplinks:
            for network in of_no_stranger(site, family):
                match = fields(in_port=in_port, eth_type=family.eth_type, **{family.destination: network})
                yield Flow(LEAVE, EXIT_DROP_PRIORITY, match)
    for each in answered(site):
        if each.family in to:
            match = fields(eth_type=each.family.eth_type, **{each.family.source: each.address})
            yield Flow(LEAVE, EXIT_PRIORITY, match, to[each.family])
