"""The boundary of a site: whose a packet cannot be, and the way to the internet beyond and back.

    ENTRY   at the exit's port what is in a stranger's name goes on as well, past ROUTE: it is for the other end's
            terminals, to whom LEAVE leads it as it leads all that goes there, and for nobody else
    LEAVE   what the other end's terminals send to strangers goes to the exit

Nobody is a stranger who has a place at either end or between the two: that is neither led on from here nor
believed from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from controller.model.config import Address, Family, Network, Site, TerminalAddress
from controller.program.groups import LEAVE, Served, answered, served
from controller.program.program import DecTtl, Flow, ToGroup, Value, fields, written
from controller.program.responders import ENTRY

# Whose a packet cannot be, by the addresses that it comes from.
#
# What comes in by an uplink, or from beyond the exit, in the name of somebody inside is somebody else's (RFC 2827). So
# is what comes in by a terminal's port from another MAC address than the one that is written for the terminal.


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


UNBELIEVED_PRIORITY, STRANGERS_PRIORITY = 8, 6  # ENTRY: below what a terminal's own address forwards
NOWHERE_PRIORITY, BEYOND_PRIORITY = 60, 50  # LEAVE: above what goes by source or comes back


def exits(site: Site) -> tuple[Served, ...]:
    """The addresses of its exit, one of a family at most."""
    return tuple(each for each in served(site) if each.terminal.exit)


def entering(site: Site, each: Served, in_port: int, mac: str) -> Iterator[Flow]:
    """From beyond, by the exit's port; `mac` is the gateway's there."""
    family = each.family
    for network in of_no_stranger(site, family):
        claimed = fields(in_port=in_port, eth_type=family.eth_type, **{family.source: network})
        yield Flow(ENTRY, UNBELIEVED_PRIORITY, claimed)
    match = fields(in_port=in_port, eth_dst=mac, eth_type=family.eth_type, **written_mac(each.place))
    yield Flow(ENTRY, STRANGERS_PRIORITY, match, goto=LEAVE)


def leading_on(site: Site, uplinks: Iterable[int]) -> Iterator[Flow]:
    """By no other port comes what is of an address at the other end, so the port need not be asked for again."""
    to = {each.family: (DecTtl(), ToGroup(each.delivery.group_id)) for each in exits(site)}
    for family in to:
        for in_port in uplinks:
            for network in of_no_stranger(site, family):
                match = fields(in_port=in_port, eth_type=family.eth_type, **{family.destination: network})
                yield Flow(LEAVE, NOWHERE_PRIORITY, match)
    for each in answered(site):
        if each.family in to:
            match = fields(eth_type=each.family.eth_type, **{each.family.source: each.address})
            yield Flow(LEAVE, BEYOND_PRIORITY, match, to[each.family])
