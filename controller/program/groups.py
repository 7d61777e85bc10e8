# SPDX-License-Identifier: Apache-2.0
"""The groups of a terminal's address: delivery to it, and the uplinks of its packets.

Groups have names for people and ids for switches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2s
from ipaddress import IPv4Network, IPv6Network

from controller.model.config import Returned, Site, Subnet, Terminal, TerminalAddress
from controller.model.redundancy import PacketUplinks, Redundancy
from controller.model.traffic import Family, Interface, TrafficClass
from controller.model.uplink import Uplink
from controller.program.program import GROUP_IDS, Action, Bucket, Group, GroupKind, written


def numbered(names: Iterable[str]) -> dict[str, int]:
    """Return a group id for each name. It is drawn from the name, so it stays when other terminals come and go.

    Equal draws are resolved in alphabetical order.
    """
    taken: dict[int, str] = {}
    for name in sorted(names):
        drawn = int.from_bytes(blake2s(name.encode(), digest_size=8).digest())
        while (group_id := GROUP_IDS[drawn % len(GROUP_IDS)]) in taken:
            drawn += 1
        taken[group_id] = name
    return {name: group_id for group_id, name in taken.items()}


@dataclass(frozen=True, slots=True)
class GroupName:
    group_id: int
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """An address of a terminal, with its groups.

    `back` is set if the port has several terminals in several subnets: packets between them leave by their ingress
    port. Values are made once per site and compared by identity, for fast caches.
    """

    terminal: Terminal
    place: TerminalAddress
    subnet: Subnet
    family: Family
    address: str
    delivery: GroupName
    back: GroupName | None
    leaving: tuple[tuple[TrafficClass, GroupName], ...]

    @property
    def network(self) -> bool:
        return self.place.host is None


@dataclass(frozen=True, slots=True, eq=False)
class MirroredAddress:
    """An address of the mirrored site, with its groups."""

    returned: Returned
    family: Family
    address: str
    leaving: tuple[tuple[TrafficClass, GroupName], ...]

    @property
    def network(self) -> bool:
        return isinstance(self.returned.address, IPv4Network | IPv6Network)


@lru_cache(maxsize=256)
def answered(site: Site) -> tuple[MirroredAddress, ...]:
    named = _named(site)
    return tuple(
        MirroredAddress(
            each,
            Family.of(each.address),
            written(each.address),
            tuple((traffic, named[_returning(each, traffic)]) for traffic in site.returned_classes),
        )
        for each in site.returned
    )


@lru_cache(maxsize=256)
def served(site: Site) -> tuple[Served, ...]:
    places = [(terminal, place, written(place.address)) for terminal in site.terminals for place in terminal.addresses]
    named = _named(site)
    return tuple(
        Served(
            terminal,
            place,
            site.subnet(place.subnet),
            Family.of(place.address),
            address,
            named[_delivery(terminal, address)],
            named.get(_back(terminal, address)),
            tuple((traffic, named[_leaving(terminal, address, traffic)]) for traffic in site.classes),
        )
        for terminal, place, address in places
    )


@dataclass(frozen=True, slots=True)
class Divided:
    """One family of a subnet behind several ports: its terminals do not receive each other's broadcasts."""

    subnet: Subnet
    gateway: Interface
    family: Family
    places: tuple[Served, ...]

    @property
    def ports(self) -> tuple[str, ...]:
        return tuple(sorted({each.place.port for each in self.places}))


@lru_cache(maxsize=256)
def divided(site: Site) -> tuple[Divided, ...]:
    found = []
    for subnet in site.subnets:
        for gateway in subnet.gateways:
            family = Family.of(gateway)
            here = tuple(each for each in served(site) if each.place.subnet == subnet.name and each.family is family)
            link = Divided(subnet, gateway, family, here)
            if len(link.ports) > 1:
                found.append(link)
    return tuple(found)


@lru_cache(maxsize=256)
def _named(site: Site) -> Mapping[str, GroupName]:
    shared = _shared_ports(site)
    names = [_returning(each, traffic) for each in site.returned for traffic in site.returned_classes]
    for terminal in site.terminals:
        for place in terminal.addresses:
            address = written(place.address)
            names.append(_delivery(terminal, address))
            if place.port in shared:
                names.append(_back(terminal, address))
            names += [_leaving(terminal, address, traffic) for traffic in site.classes]
    return {name: GroupName(number, name) for name, number in numbered(names).items()}


def _shared_ports(site: Site) -> set[str]:
    terminals: dict[str, set[str]] = {}
    subnets: dict[str, set[str]] = {}
    for terminal in site.terminals:
        for place in terminal.addresses:
            terminals.setdefault(place.port, set()).add(terminal.name)
            subnets.setdefault(place.port, set()).add(place.subnet)
    return {port for port in subnets if len(terminals[port]) > 1 and len(subnets[port]) > 1}


def _delivery(terminal: Terminal, address: str) -> str:
    return f"{terminal.name} to {address}"


def _back(terminal: Terminal, address: str) -> str:
    return f"{terminal.name} to {address} from beside it"


def _leaving(terminal: Terminal, address: str, traffic: TrafficClass) -> str:
    return f"{terminal.name} {traffic.name} from {address}"


def _returning(returned: Returned, traffic: TrafficClass) -> str:
    return f"{returned.terminal.name} {traffic.name} back to {returned.address}"


# Groups of uplinks

MOST_KEPT = 1 << 15  # cached addresses: most changes concern one address, the others come from the cache


@dataclass(frozen=True, slots=True)
class UsableUplink:
    """An uplink that can carry a family: its port and its next hop's MAC are known."""

    uplink: Uplink
    up: bool
    screened: bool  # no copies arrive at its other end: used last
    port: int
    actions: tuple[Action, ...]
    copied: tuple[Action, ...]  # for packets that leave by another uplink too
    barred: bool = False  # its budget is used up


@dataclass(frozen=True, slots=True, eq=False)
class UsableUplinks:
    """The usable uplinks of one family. Equal values are one object."""

    usable: tuple[UsableUplink, ...]


@lru_cache(maxsize=1024)
def paths(*usable: UsableUplink) -> UsableUplinks:
    """Return one object for equal uplinks: the caches below compare by identity."""
    return UsableUplinks(usable)


@lru_cache(maxsize=MOST_KEPT)
def leaving(
    each: Served | MirroredAddress, classes: tuple[Redundancy, ...], own: str, active: str, paths: UsableUplinks
) -> tuple[Group, ...]:
    """Return the groups of an address by class: the named ones, the bicast class, the rest.

    `own` is the uplink of its subnet.
    """
    ways = (_way(its, own if its.sent_over is PacketUplinks.OWN else active, paths) for its in classes)
    return tuple(Group(name.group_id, *way, name.label) for (_, name), way in zip(each.leaving, ways, strict=False))


@lru_cache(maxsize=1024)
def _way(its: Redundancy, active: str, paths: UsableUplinks) -> tuple[GroupKind, tuple[Bucket, ...]]:
    if its.sent_over is PacketUplinks.OWN:
        own = (path for path in paths.usable if path.uplink.name == active and path.up)
        return GroupKind.ALL, tuple(Bucket(path.actions) for path in own)
    if its.sent_over is PacketUplinks.EVERY:
        up = [path for path in paths.usable if path.up]
        of_use = [path for path in up if not path.screened] or up
        paid = [path for path in of_use if not path.barred or path.uplink.name == active]
        if len(paid) > 1 or len(paid) == len(of_use):
            return GroupKind.ALL, _copies(paid, active)
    # The bucket of a port that is down stays: the switch returns to it without a controller.
    in_order = sorted(paths.usable, key=lambda path: (path.screened, path.uplink.name != active))
    return GroupKind.FAST_FAILOVER, tuple(Bucket(path.actions, watch_port=path.port) for path in in_order)


def _copies(paths: list[UsableUplink], active: str) -> tuple[Bucket, ...]:
    """Return a bucket per uplink. The first, if possible the active one's, is no copy; metered ones are last."""
    if all(path.copied is path.actions for path in paths):
        return tuple(Bucket(path.actions) for path in paths)
    first, *others = sorted(paths, key=lambda path: (path.uplink.name != active, path.copied is not path.actions))
    return (Bucket(first.actions), *(Bucket(path.copied) for path in others))
