# SPDX-License-Identifier: Apache-2.0
"""The uplinks of a terminal's packets, derived from its addresses.

Packets to an address of a subflow subnet arrive by that subnet's uplink in any mode: return routes lead there. A
terminal whose addresses are all of one uplink has no path to choose: its evidence counts for its active uplink.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from controller.model.config import Site, Terminal, TerminalAddress
from controller.model.in_force import InForce
from controller.model.redundancy import PacketUplinks
from controller.model.traffic import Family, Protocol, TrafficClass

Paths = Mapping[str, tuple[str, ...]]  # by uplink: a terminal's addresses there


@dataclass(frozen=True, slots=True)
class TerminalUplinks:
    """The uplinks of one terminal's TCP at one moment."""

    terminal: str
    over: PacketUplinks | None  # None: differs by class, and reports do not show a packet's class
    active: str


@dataclass(frozen=True, slots=True)
class AddressOwner:
    """The site, terminal and uplink of one configured address."""

    site: Site
    terminal: Terminal
    uplink: str | None  # return uplink of its packets; None: no fixed one, the active uplink counts
    by_relay: bool = False  # the site's host has it, and relays for the terminal


def way(site: Site, terminal: Terminal, in_force: InForce) -> TerminalUplinks:
    its, active = in_force.redundancy(site, terminal), in_force.active_uplink(site, terminal)
    named = (in_force.redundancy(site, terminal, each.name) for each in site.named if _holds_tcp(each))
    over = {each.lost_over for each in (its if _holds_tcp(site.bicast) else its.of_rest, *named)}
    if in_force.keeps_apart(site, terminal):
        over = {PacketUplinks.OWN if each is PacketUplinks.ACTIVE else each for each in over}
    return TerminalUplinks(terminal.name, over.pop() if len(over) == 1 else None, active)


def uplinks_key(site: Site, terminal: Terminal, in_force: InForce, usable: Collection[str]) -> str:
    """Return a key of the uplinks that carry a terminal's packets: measurements under other keys do not apply.

    `usable`: the uplinks that are up and get copies.
    """
    found = way(site, terminal, in_force)
    if found.over is PacketUplinks.OWN:
        return "each over its own"
    if found.over is PacketUplinks.ACTIVE:
        return found.active
    every = "+".join(sorted(usable))
    return every if found.over is PacketUplinks.EVERY else f"{found.active}, {every}"


def _holds_tcp(traffic: TrafficClass) -> bool:
    return not traffic.protocols or Protocol.TCP in traffic.protocols


def paths(site: Site, addresses: Iterable[TerminalAddress]) -> Paths:
    """Return no paths, or at least two."""
    found: dict[str, tuple[str, ...]] = {}
    for at in addresses:
        uplink = site.subnet(at.subnet).uplink
        if uplink is not None:
            found[uplink] = (*found.get(uplink, ()), str(at.address))
    return found if len(found) > 1 else {}


def homes(sites: tuple[Site, ...]) -> dict[str, tuple[AddressOwner, ...]]:
    """Return the homes of each address. An address may be in several sites."""
    found: dict[str, tuple[AddressOwner, ...]] = {}
    for site in sites:
        for terminal in site.terminals:
            returns_by = {
                address: uplink for uplink, there in paths(site, terminal.addresses).items() for address in there
            }
            for at in terminal.addresses:
                address = str(at.address)
                home = AddressOwner(site, terminal, returns_by.get(address), at.by_relay)
                found[address] = (*found.get(address, ()), home)
    return found


def able(site: Site, terminal: Terminal) -> tuple[str, ...]:
    """Return uplinks with next hops for all of its families, in order of preference."""
    families = {Family.of(at.address) for at in terminal.addresses}
    return tuple(uplink.name for uplink in site.uplinks if all(uplink.next_hop(family) for family in families))


def uses_no_uplink(home: AddressOwner, remote: str) -> bool:
    """Return whether TCP to `remote` uses no uplink: it stays inside, or is intercepted and the host connects."""
    if _stays_inside(home.site, remote):
        return True
    return home.terminal.relayed and not home.by_relay and _is_taken(home.site, remote)


@lru_cache(maxsize=16_384)
def _stays_inside(site: Site, address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return True
    return any(subnet.holds(parsed) for subnet in site.subnets)


@lru_cache(maxsize=16_384)
def _is_taken(site: Site, address: str) -> bool:
    parsed, relaying = ip_address(address), site.relaying
    if relaying is None or Family.of(parsed) not in relaying.families:
        return False
    return not any(parsed in network for network in relaying.excepted)
