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
from enum import Enum, StrEnum
from functools import cached_property
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from reprlib import Repr

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


# Families, protocols and traffic classes

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network


class Family(Enum):
    """Everything in which the two families differ, so that no code path is written twice."""

    IPV4 = (
        4,
        0x0800,
        "ipv4_src",
        "ipv4_dst",
        1,
        "icmpv4_type",
        8,
        0,
        ("224.0.0.0/4", "240.0.0.0/4", "127.0.0.0/8", "0.0.0.0/8", "169.254.0.0/16"),
    )
    IPV6 = (
        6,
        0x86DD,
        "ipv6_src",
        "ipv6_dst",
        58,
        "icmpv6_type",
        128,
        129,
        ("ff00::/8", "fe80::/10", "::/96", "::ffff:0:0/96"),
    )

    def __init__(
        self,
        version: int,
        eth_type: int,
        source: str,
        destination: str,
        icmp_protocol: int,
        icmp_type: str,
        echo_request: int,
        echo_reply: int,
        never_routed: tuple[str, ...],
    ) -> None:
        self.version = version
        self.eth_type = eth_type
        self.source = source
        self.destination = destination
        self.icmp_protocol = icmp_protocol
        self.icmp_type = icmp_type
        self.echo_request = echo_request
        self.echo_reply = echo_reply
        self.never_routed = never_routed

    @staticmethod
    def of(address: Address | Interface) -> Family:
        return Family.IPV4 if address.version == 4 else Family.IPV6


class Protocol(Enum):
    """A protocol by which traffic is told apart, with its number in each family."""

    TCP = ("tcp", 6, 6)
    UDP = ("udp", 17, 17)
    ICMP = ("icmp", 1, 58)
    SCTP = ("sctp", 132, 132)

    def __init__(self, label: str, ipv4_number: int, ipv6_number: int) -> None:
        self.label = label
        self._numbers = {Family.IPV4: ipv4_number, Family.IPV6: ipv6_number}

    def number(self, family: Family) -> int:
        return self._numbers[family]


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """Traffic that is led together. Where there are several values of one kind, one of them must hold; where there are
    none, any does. A class of no values at all has whatever no other class takes.

    Ports and networks are the other end's: where what a terminal sends goes, and where what it is sent comes from.
    """

    name: str
    protocols: tuple[Protocol, ...] = ()
    ports: tuple[range, ...] = ()
    dscp: tuple[int, ...] = ()
    networks: tuple[Network, ...] = ()


REST = TrafficClass("rest")


# The controller itself


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: str
    key: str
    ca: str


@dataclass(frozen=True, slots=True)
class AgentService:
    """Where agents are served (`listen`) and enrolled (`join`), and where is kept who they are."""

    listen: Endpoint
    join: Endpoint
    directory: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the controller listens and what it keeps."""

    openflow: Endpoint
    tls: Tls | None
    api: Endpoint
    token_file: str | None
    state_file: str
    agents: AgentService | None = None  # None: there are none


# Uplinks


class UplinkKind(StrEnum):
    ETHERNET = "ethernet"
    TUNNEL = "tunnel"  # VXLAN, to the site at the other end


@dataclass(frozen=True, slots=True)
class NextHop:
    address: Address
    mac: str | None  # None: learned


@dataclass(frozen=True, slots=True)
class Tunnel:
    """One end. That which knows the other's outer address starts; that one takes who proves to be it."""

    device: str | None  # by which it leaves; None: as the host's routes say
    remote: Address | None  # None: learned
    udp_port: int  # of both ends
    vni: int  # of both ends, and of no other tunnel of this file


@dataclass(frozen=True, slots=True)
class Limits:
    """How many bytes copies may use of one uplink; None: no such limit."""

    budget_bytes_per_day: int | None
    max_share: float | None  # from 0 to 1: of all that the site sends, copies by this uplink are so much at most


UNLIMITED = Limits(None, None)


@dataclass(frozen=True, slots=True)
class Measure:
    """Addresses of the two ends' hosts whose packets take an uplink, where its port does not tell."""

    local: Address
    remote: Address


@dataclass(frozen=True, slots=True)
class Uplink:
    name: str
    port: str
    mac: str | None  # None: the port's own
    addresses: tuple[Interface, ...]
    next_hops: tuple[NextHop, ...]
    tunnel: Tunnel | None = None  # its port is then a device that the site's agent makes
    limits: Limits = UNLIMITED
    measure: Measure | None = None  # of kind ethernet

    @property
    def outer_bytes(self) -> int:
        """What a tunnel puts around each frame: headers of IP, UDP and VXLAN. Those of IPv6 where it is not known."""
        if self.tunnel is None:
            return 0
        over_ipv4 = self.tunnel.remote is not None and Family.of(self.tunnel.remote) is Family.IPV4
        return (20 if over_ipv4 else 40) + 8 + 8

    @property
    def kind(self) -> UplinkKind:
        return UplinkKind.TUNNEL if self.tunnel else UplinkKind.ETHERNET

    def next_hop(self, family: Family) -> NextHop | None:
        return next((hop for hop in self.next_hops if Family.of(hop.address) is family), None)

    def address(self, family: Family) -> Interface | None:
        return next((own for own in self.addresses if Family.of(own) is family), None)


# Relaying: a terminal's TCP leaves the bridge for the host, which proxies it.
#
#     terminal ── bridge ── port ═ host ═ a port for each uplink ── bridge ── uplinks ── relays
#
# The agent makes each port as one end of a pair of devices. The host has an address for each relayed terminal in the
# relaying network of each uplink. The bridge treats these as addresses of the terminal: its mode, active uplink and
# classes apply.

RELAYING = "relay/"  # a relaying network's name begins with it, and no other's can
HOST_END = "-h"  # the name of the host's end of a pair: the port's, and this
HOST_MAC = "02:62:69:63:61:73"  # of the host's end of every pair: each is a link of its own


class Fallback(StrEnum):
    """What becomes of a connection that cannot be relayed."""

    DIRECT = "direct"
    BLOCK = "block"


class Choosing(StrEnum):
    """By what it is chosen which relay a connection goes by."""

    NEAREST = "nearest"  # always by one, that which is reached fastest
    PING = "ping"
    TRACEROUTE = "traceroute"
    PREDICTED = "predicted"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class RelayingUplink:
    name: str
    port: str
    gateways: tuple[Interface, ...]  # the bridge's, one a family at most
    bandwidth_bps: int | None = None  # that comes to the site by it; None: as it is measured, if it is

    @property
    def subnet(self) -> str:
        return f"{RELAYING}{self.name}"


@dataclass(frozen=True, slots=True)
class RelayConfig:
    port: str
    uplinks: tuple[RelayingUplink, ...]  # all of the site's, in its order
    fallback: Fallback
    choose: Choosing
    excepted: tuple[Network, ...]  # what is written, and those of the other end: TCP that goes there is left alone

    @property
    def bandwidth_bps(self) -> int | None:
        """What the fastest uplink brings; None: of one at least that is not written."""
        written = [each.bandwidth_bps for each in self.uplinks if each.bandwidth_bps is not None]
        return max(written) if len(written) == len(self.uplinks) else None

    @property
    def families(self) -> tuple[Family, ...]:
        """Those that are taken."""
        return tuple(Family.of(own) for own in self.uplinks[0].gateways)


# Sites

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
