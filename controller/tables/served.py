"""A terminal's address as the switch serves it: what its flows and groups are made from, looked up once for each site.

Groups have names for people and ids for switches; both stay when other terminals come and go (groups.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from controller.model import Family, Interface, Returned, Site, Subnet, Terminal, TerminalAddress, TrafficClass
from controller.tables.groups import numbered


@dataclass(frozen=True, slots=True)
class GroupName:
    group_id: int
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """`back` is there for a port with several terminals in several subnets: they reach each other back out of it. A
    site's are made once and compared by identity: what is remembered of each is asked for at every compilation."""

    terminal: Terminal
    place: TerminalAddress
    subnet: Subnet
    family: Family
    address: str
    delivery: GroupName
    back: GroupName | None
    leaving: tuple[tuple[TrafficClass, GroupName], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """An address that the site mirrors, and the groups by which packets go there."""

    returned: Returned
    family: Family
    address: str
    leaving: tuple[tuple[TrafficClass, GroupName], ...]


@lru_cache(maxsize=256)
def answered(site: Site) -> tuple[Answered, ...]:
    named = _named(site)
    return tuple(
        Answered(
            each,
            Family.of(each.address),
            str(each.address),
            tuple((traffic, named[_returning(each, traffic)]) for traffic in site.returned_classes),
        )
        for each in site.returned
    )


@lru_cache(maxsize=256)
def served(site: Site) -> tuple[Served, ...]:
    places = [(terminal, place, str(place.address)) for terminal in site.terminals for place in terminal.addresses]
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
    """One family of a subnet whose terminals stand behind several ports: neighbours who do not hear each other."""

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
    """Every group that the site has, by its name."""
    shared = _shared_ports(site)
    names = [_returning(each, traffic) for each in site.returned for traffic in site.returned_classes]
    for terminal in site.terminals:
        for place in terminal.addresses:
            address = str(place.address)
            names.append(_delivery(terminal, address))
            if place.port in shared:
                names.append(_back(terminal, address))
            names += [_leaving(terminal, address, traffic) for traffic in site.classes]
    return {name: GroupName(number, name) for name, number in numbered(names).items()}


def _shared_ports(site: Site) -> set[str]:
    """Ports with several terminals in several subnets."""
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
