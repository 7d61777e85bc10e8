# SPDX-License-Identifier: Apache-2.0
"""The contents of gateway.yaml as frozen values.

        terminals                    site                        uplinks

    phone ──┐                ┌───────────────────┐          ┌── wifi ── next hop ──►
            ├─ inside port ──┤ bridge            ├── port ──┤
    laptop ─┘   (subnets)    │ groups, flows     │          └── lte  ── next hop ──►
                             └───────────────────┘

A subnet with an uplink of its own is a subflow subnet: MPTCP opens one subflow from each. A subnet with a LAN is served
by the host, which routes between its devices and the bridge. A site may mirror another one, as the far end of that
site's uplinks. Packets to that site's terminals then return by the uplinks on which their packets left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from reprlib import Repr

from controller.model.relaying import RelayConfig
from controller.model.settings import Settings
from controller.model.traffic import REST, Address, Family, Interface, Network, TrafficClass
from controller.model.uplink import Uplink

SHORT = Repr()  # YAML aliases expand a few lines to a huge value


class ConfigError(Exception):
    """A bad configuration: place, found value and expected value."""

    def __init__(self, file: str, where: str, value: object, expected: str) -> None:
        self.file, self.value = file, value
        self.where, self.expected = _speakable(where), _speakable(expected)
        shown = SHORT.repr(value) if value is not None else "nothing"
        super().__init__(f"{file}: {self.where or 'top level'}: found {shown}, expected {self.expected}")


def _speakable(text: str) -> str:
    """Escape unprintable characters: a key may hold lone surrogates or terminal control sequences."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


EVERYBODY = "all"  # every terminal, in place of a name
AUTO = "auto"  # an uplink: policies choose
WRITTEN = "file"  # a mode: the one in gateway.yaml


class Mode(StrEnum):
    """How a terminal's uplink packets leave."""

    BICAST = "bicast"  # the bicast class by every usable uplink, the rest by the active one
    SINGLE = "single"  # by the active uplink; the others are its fallback
    OFF = "off"  # each subflow subnet by its own uplink, as without this controller
    AUTO = "auto"  # bicast while copies are worth their bytes, single while one path is clean


class Datapath(StrEnum):
    SYSTEM = "system"
    NETDEV = "netdev"


@dataclass(frozen=True, slots=True)
class Lan:
    """An interface of the host with devices that it serves. The host is their gateway."""

    device: str
    port: str  # the bridge's end of a pair; `bicast bridge` makes it


@dataclass(frozen=True, slots=True)
class Subnet:
    """Inside addresses behind one gateway address per family."""

    name: str
    gateways: tuple[Interface, ...]
    mac: str | None  # None: the terminal's port's
    uplink: str | None  # set: a subflow subnet
    lan: Lan | None = None  # set: the gateways are the host's, and devices need no entry

    def gateway(self, family: Family) -> Interface | None:
        return next((own for own in self.gateways if Family.of(own) is family), None)

    def holds(self, address: Address) -> bool:
        return any(Family.of(own) is Family.of(address) and address in own.network for own in self.gateways)


class Exit(StrEnum):
    """The router to the internet."""

    MACHINE = "true"  # another machine, behind the port
    HOST = "host"  # the bridge's own; `bicast bridge` makes the port


@dataclass(frozen=True, slots=True)
class TerminalAddress:
    address: Address | Network  # a network: the devices of a LAN that have no entry
    subnet: str
    port: str
    mac: str | None  # None: learned
    by_relay: bool = False  # the host has it and relays for the terminal
    leased_to: str | None = None  # the MAC or name of the device that gets this address from DHCP

    @property
    def host(self) -> Address | None:
        return self.address if isinstance(self.address, IPv4Address | IPv6Address) else None


@dataclass(frozen=True, slots=True)
class Terminal:
    name: str
    addresses: tuple[TerminalAddress, ...]
    mode: Mode  # without an override
    default_uplink: str
    access_point: str | None
    modes: tuple[tuple[str, Mode], ...] = ()  # of named classes; others follow `mode`
    exit: Exit | None = None  # set: a router to the internet for the peer site's terminals
    relayed: bool = False  # its TCP is intercepted

    @property
    def own(self) -> tuple[TerminalAddress, ...]:
        return tuple(at for at in self.addresses if not at.by_relay)


class CapRule(StrEnum):
    """The rule that bounds the congestion windows of an access point's terminals."""

    OFF = "off"
    PAPER = "paper"  # two tables of paper 000
    IDEAL = "ideal"  # an equal share of the bandwidth-delay product


class CapTables(StrEnum):
    """The Android versions for which paper 000 has tables."""

    GINGERBREAD = "gb"
    JELLY_BEAN = "jb"


@dataclass(frozen=True, slots=True)
class AccessPoint:
    """A shared radio; its bandwidth is not the uplink's."""

    name: str
    bandwidth_bps: int | None
    rule: CapRule = CapRule.OFF
    tables: CapTables = CapTables.JELLY_BEAN  # of the rule `paper`
    measure: Address | None = None  # host at the gateway that agents probe; None: no probes


@dataclass(frozen=True, slots=True)
class CopyWindow:
    """Limits of the time in which copies after the first are recognized."""

    floor_ms: int
    ceiling_ms: int


@dataclass(frozen=True, slots=True)
class Returned:
    """An address of a peer site's terminal, whose mode applies to both directions."""

    terminal: Terminal
    address: Address | Network
    uplink: str  # for packets to it in mode off


@dataclass(frozen=True, slots=True)
class Site:
    name: str
    dpid: int
    bridge: str
    datapath: Datapath
    bicast: TrafficClass  # copied in mode bicast
    bicast_once: TrafficClass  # copied while the peer site eliminates duplicates
    copies: CopyWindow
    uplinks: tuple[Uplink, ...]
    subnets: tuple[Subnet, ...]
    terminals: tuple[Terminal, ...]
    access_points: tuple[AccessPoint, ...]
    peer_of: str | None = None  # the peer site that this site mirrors
    other_end: str | None = None  # the peer site, in either direction
    returned: tuple[Returned, ...] = ()  # of the mirrored site's terminals
    named: tuple[TrafficClass, ...] = ()  # disjoint, with own modes; `bicast` has the rest
    named_there: tuple[TrafficClass, ...] = ()  # of the mirrored site
    networks_there: tuple[Network, ...] = ()  # of the peer site's uplinks and subnets
    relaying: RelayConfig | None = None  # None: no TCP is relayed

    def __hash__(self) -> int:
        """Hash two fields: hashing 250 terminals at each look-up is slow."""
        return hash((self.dpid, self.name))

    def uplink(self, name: str) -> Uplink:
        return next(uplink for uplink in self.uplinks if uplink.name == name)

    def subnet(self, name: str) -> Subnet:
        return next(subnet for subnet in self.subnets if subnet.name == name)

    @property
    def home(self) -> str:
        """Return the name that both ends of the uplinks share."""
        return self.peer_of or self.name

    @property
    def networks(self) -> tuple[Network, ...]:
        between = (own.network for uplink in self.uplinks for own in uplink.addresses)
        return (*between, *(own.network for subnet in self.subnets for own in subnet.gateways))

    @property
    def exit(self) -> Terminal | None:
        return next((terminal for terminal in self.terminals if terminal.exit), None)

    @property
    def classes(self) -> tuple[TrafficClass, ...]:
        """Return the classes, highest priority first."""
        return (*self.named, *self._others)

    @property
    def returned_classes(self) -> tuple[TrafficClass, ...]:
        return (*self.named_there, *self._others)

    @property
    def _others(self) -> tuple[TrafficClass, ...]:
        return (self.bicast, REST) if self.bicast.protocols else (self.bicast,)

    @property
    def ports(self) -> tuple[str, ...]:
        """Return every port once, uplinks first."""
        taking = (self.relaying.port,) if self.relaying else ()
        return (*(uplink.port for uplink in self.uplinks), *self.inside_ports, *taking)

    @property
    def lan_ports(self) -> tuple[str, ...]:
        return tuple(subnet.lan.port for subnet in self.subnets if subnet.lan)

    @property
    def inside_ports(self) -> tuple[str, ...]:
        return tuple(sorted({place.port for terminal in self.terminals for place in terminal.addresses}))


def locals_of(site: Site, terminal: Terminal, first: str | None = None) -> tuple[tuple[str, tuple[Address, ...]], ...]:
    """Return the host's addresses for a relayed terminal, by uplink.

    The uplink `first` or the default one leads. The others keep the site's order.
    """
    if site.relaying is None or not terminal.relayed:
        return ()
    best = first or terminal.default_uplink
    in_order = sorted(site.relaying.uplinks, key=lambda uplink: uplink.name != best)
    return tuple(
        (uplink.name, tuple(at.host for at in terminal.addresses if at.host and at.subnet == uplink.subnet))
        for uplink in in_order
    )


@dataclass(frozen=True)  # no slots: sites are found by name at every compilation
class Config:
    settings: Settings
    sites: tuple[Site, ...]
    servers: tuple[str, ...] = ()  # agents whose reports need no confirmation

    def dpids(self, site: Site) -> tuple[int, ...]:
        other = self.other_end(site)
        return (site.dpid, other.dpid) if other is not None and other.peer_of else (site.dpid,)

    def other_end(self, site: Site) -> Site | None:
        return self._by_name.get(site.other_end) if site.other_end is not None else None

    @cached_property
    def _by_name(self) -> dict[str, Site]:
        return {each.name: each for each in self.sites}
