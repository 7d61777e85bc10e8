# SPDX-License-Identifier: Apache-2.0
"""The contents of gateway.yaml as frozen values, and the error that a bad configuration raises.

        terminals                    site                        uplinks
    phone ──┐                ┌───────────────────┐          ┌── wifi ── next hop ──►
            ├─ inside port ──┤ bridge            ├── port ──┤
    laptop ─┘   (subnets)    │ groups, flows     │          └── lte  ── next hop ──►
                             └───────────────────┘

A site has an inside and uplinks. A subnet that has an uplink of its own is a subflow subnet: MPTCP opens one subflow
from each. A site may mirror another one: it is then the far end of that site's uplinks, and packets to that site's
terminals return by the uplinks on which their packets left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from reprlib import Repr

from controller.model.relaying import RelayConfig
from controller.model.settings import Settings
from controller.model.traffic import REST, Address, Family, Interface, Network, TrafficClass
from controller.model.uplink import Uplink

SHORT = Repr()  # aliases in YAML let a few lines expand to a huge value


class ConfigError(Exception):
    """The one error of a bad configuration: where, what stands there, and what should."""

    def __init__(self, file: str, where: str, value: object, expected: str) -> None:
        self.file, self.value = file, value
        self.where, self.expected = _speakable(where), _speakable(expected)
        shown = SHORT.repr(value) if value is not None else "nothing"
        super().__init__(f"{file}: {self.where or 'top level'}: found {shown}, expected {self.expected}")


def _speakable(text: str) -> str:
    """A key of the file may hold half of a character, or what moves a terminal's cursor."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


EVERYBODY = "all"  # in the place of a terminal's name
AUTO = "auto"  # in the place of an uplink's: policies choose
WRITTEN = "file"  # in the place of a mode: the one that is written


class Mode(StrEnum):
    """How a terminal's uplink packets leave."""

    BICAST = "bicast"  # the bicast class rides every usable uplink, the rest the active one
    SINGLE = "single"  # everything rides the active uplink, the others stand behind it
    OFF = "off"  # each subflow subnet rides its own uplink, as if we were not here
    AUTO = "auto"  # bicast while copies are worth their bytes, and single while one path is clean


class Datapath(StrEnum):
    SYSTEM = "system"
    NETDEV = "netdev"


@dataclass(frozen=True, slots=True)
class Subnet:
    """Inside addresses behind one gateway address a family."""

    name: str
    gateways: tuple[Interface, ...]
    mac: str | None  # None: that of the port a terminal stands behind
    uplink: str | None  # set: a subflow subnet

    def gateway(self, family: Family) -> Interface | None:
        return next((own for own in self.gateways if Family.of(own) is family), None)

    def holds(self, address: Address) -> bool:
        return any(Family.of(own) is Family.of(address) and address in own.network for own in self.gateways)


@dataclass(frozen=True, slots=True)
class TerminalAddress:
    address: Address
    subnet: str
    port: str
    mac: str | None  # None: learned
    by_relay: bool = False  # the host's, which speaks for the terminal there


@dataclass(frozen=True, slots=True)
class Terminal:
    name: str
    addresses: tuple[TerminalAddress, ...]
    mode: Mode  # until somebody wishes another
    default_uplink: str
    access_point: str | None
    modes: tuple[tuple[str, Mode], ...] = ()  # of named classes; the others follow `mode`
    exit: bool = False  # the way on from here for the terminals at the other end: a host that routes
    relayed: bool = False  # its TCP is taken

    @property
    def own(self) -> tuple[TerminalAddress, ...]:
        """The addresses that it has itself."""
        return tuple(at for at in self.addresses if not at.by_relay)


class CapRule(StrEnum):
    """By what the congestion windows of an access point's terminals are bounded."""

    OFF = "off"
    PAPER = "paper"  # the two tables of paper 000
    IDEAL = "ideal"  # each its part of what fits on the way


class CapTables(StrEnum):
    """Android's versions, for each of which paper 000 has tables."""

    GINGERBREAD = "gb"
    JELLY_BEAN = "jb"


@dataclass(frozen=True, slots=True)
class AccessPoint:
    """The air that terminals share; its bandwidth is not the uplink's."""

    name: str
    bandwidth_bps: int | None
    rule: CapRule = CapRule.OFF
    tables: CapTables = CapTables.JELLY_BEAN  # of the rule `paper`
    measure: Address | None = None  # of its gateway's host, for terminals' agents; None: they are not measured


@dataclass(frozen=True, slots=True)
class CopyWindow:
    """How long after the first a copy may come, at least and at most, and still be known as one."""

    floor_ms: int
    ceiling_ms: int


@dataclass(frozen=True, slots=True)
class Returned:
    """An address of a terminal at the other end of a site's uplinks. What goes there leaves as what comes from there
    does: a mode is of both directions."""

    terminal: Terminal
    address: Address
    uplink: str  # by which it leaves in mode off


@dataclass(frozen=True, slots=True)
class Site:
    name: str
    dpid: int
    bridge: str
    datapath: Datapath
    bicast: TrafficClass  # what is copied, in mode bicast
    bicast_once: TrafficClass  # what is, while the other end lets one copy of each packet pass
    copies: CopyWindow
    uplinks: tuple[Uplink, ...]
    subnets: tuple[Subnet, ...]
    terminals: tuple[Terminal, ...]
    access_points: tuple[AccessPoint, ...]
    mirrors: str | None = None  # the site at the other end of its uplinks, whose terminals it serves there
    other_end: str | None = None  # the same, or the site that mirrors this one
    returned: tuple[Returned, ...] = ()  # that one's terminals
    named: tuple[TrafficClass, ...] = ()  # apart from each other, each with its mode; `bicast` is of what they leave
    named_there: tuple[TrafficClass, ...] = ()  # the same of the site that it mirrors, for that one's terminals
    networks_there: tuple[Network, ...] = ()  # of that one's uplinks and subnets
    relaying: RelayConfig | None = None  # its relayed terminals' TCP goes to relays

    def __hash__(self) -> int:
        """What is remembered of a site is asked for at every compilation: not from 250 terminals each time."""
        return hash((self.dpid, self.name))

    def uplink(self, name: str) -> Uplink:
        return next(uplink for uplink in self.uplinks if uplink.name == name)

    def subnet(self, name: str) -> Subnet:
        return next(subnet for subnet in self.subnets if subnet.name == name)

    @property
    def home(self) -> str:
        """The site whose uplinks these are: both ends have them in common."""
        return self.mirrors or self.name

    @property
    def networks(self) -> tuple[Network, ...]:
        """Those that its uplinks and subnets have addresses in."""
        between = (own.network for uplink in self.uplinks for own in uplink.addresses)
        return (*between, *(own.network for subnet in self.subnets for own in subnet.gateways))

    @property
    def exit(self) -> Terminal | None:
        return next((terminal for terminal in self.terminals if terminal.exit), None)

    @property
    def classes(self) -> tuple[TrafficClass, ...]:
        """Of what its terminals send, those that go before others first."""
        return (*self.named, *self._others)

    @property
    def returned_classes(self) -> tuple[TrafficClass, ...]:
        return (*self.named_there, *self._others)

    @property
    def _others(self) -> tuple[TrafficClass, ...]:
        return (self.bicast, REST) if self.bicast.protocols else (self.bicast,)

    @property
    def ports(self) -> tuple[str, ...]:
        """Every port once, uplinks first."""
        taking = (self.relaying.port,) if self.relaying else ()
        return (*(uplink.port for uplink in self.uplinks), *self.inside_ports, *taking)

    @property
    def inside_ports(self) -> tuple[str, ...]:
        """Behind which terminals are, or the host in their names."""
        return tuple(sorted({place.port for terminal in self.terminals for place in terminal.addresses}))


def locals_of(site: Site, terminal: Terminal, first: str | None = None) -> tuple[tuple[str, tuple[Address, ...]], ...]:
    """The addresses by which the host speaks for a terminal, by uplink: `first`, or else its default one, before the
    others, which are in the site's order."""
    if site.relaying is None or not terminal.relayed:
        return ()
    best = first or terminal.default_uplink
    in_order = sorted(site.relaying.uplinks, key=lambda uplink: uplink.name != best)
    return tuple(
        (uplink.name, tuple(at.address for at in terminal.addresses if at.subnet == uplink.subnet))
        for uplink in in_order
    )


@dataclass(frozen=True)  # no slots: its sites are found by name at every compilation
class Config:
    settings: Settings
    sites: tuple[Site, ...]
    servers: tuple[str, ...] = ()  # agents whose word on the connections that they serve counts by itself

    def ends(self, site: Site) -> tuple[int, ...]:
        """The dpids that a wish about a terminal of this site concerns: its own first, then of whom mirrors it."""
        other = self.other_end(site)
        return (site.dpid, other.dpid) if other is not None and other.mirrors else (site.dpid,)

    def other_end(self, site: Site) -> Site | None:
        """The site at the other end of its uplinks, where that is one of ours."""
        return self._by_name.get(site.other_end) if site.other_end is not None else None

    @cached_property
    def _by_name(self) -> dict[str, Site]:
        return {each.name: each for each in self.sites}
