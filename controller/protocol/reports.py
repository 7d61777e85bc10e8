# SPDX-License-Identifier: Apache-2.0
"""Reports of agents, as values: connections, measured paths, relayed connections, and results of orders.

`session` numbers one stream of one agent, so that a late message of an old stream is recognized. `directive` numbers
one order of the core and comes back with its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Measured paths

LATE_S = 10  # a window that has packets in it at any pace


@dataclass(frozen=True, slots=True)
class Answering:
    """Of those who measure the paths to a host."""

    reason: str  # why nobody is answered; empty: those are who were named
    probes: int  # answered
    health_packets: int  # answered
    strangers: int  # packets of no session, or not genuine
    replays: int
    too_many: int  # more a second than are answered


@dataclass(frozen=True, slots=True)
class HealthWindow:
    """Changes are of one direction's delay, above the lowest of the last minute: the clocks differ."""

    seconds: int
    sent: int
    lost: int
    lost_there: int
    lost_back: int
    reordered: int
    rtt_least_us: int  # without the far end's own time; 0: none was answered
    rtt_median_us: int
    rtt_p95_us: int
    reason: str  # why the rest is not known; empty: it is
    there_median_us: int
    there_p95_us: int
    there_jitter_us: int
    back_median_us: int
    back_p95_us: int
    back_jitter_us: int


@dataclass(frozen=True, slots=True)
class PathHealth:
    """How one path fares, by small packets. The counts begin anew with the order."""

    name: str  # the uplink's
    reason: str  # why nothing is sent; empty: it is
    sent: int  # more than a second ago: by then each is answered, or lost
    lost: int
    lost_there: int  # of the lost: the rest of them is not known to be of either direction
    lost_back: int
    late: int  # answered, and so long after the shortest of the last minute that who waits for it feels it
    windows: tuple[HealthWindow, ...]

    @property
    def answers(self) -> bool:
        """The other end does, as was seen of late."""
        late = next((window for window in self.windows if window.seconds == LATE_S), None)
        return late is not None and late.sent > late.lost


@dataclass(frozen=True, slots=True)
class ProbePacket:
    """Times are nanoseconds since some moment: the first and the last by the clock of who sent the packet, the others
    by the other one's. None: not known. Without the second and the last it was lost, or its answer."""

    train: int  # from 1; 0: it was sent alone
    length: int  # of UDP payload
    sent_ns: int | None
    received_ns: int | None
    answered_ns: int | None
    heard_ns: int | None

    @property
    def came(self) -> bool:
        """Its answer did, though kernels may not have stamped it: they begin to a moment late."""
        return self.received_ns is not None or self.heard_ns is not None

    @property
    def timed(self) -> bool:
        return self.sent_ns is not None and self.received_ns is not None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What came of an order to probe."""

    session: int
    directive: int
    reason: str  # why there is less than was ordered; empty: all was sent
    transport: str  # udp or udp6; empty: no packet was sent
    hardware: bool  # both ends' times are of their network cards
    packets: tuple[ProbePacket, ...]  # in the order of sending


# Relayed connections and distances


@dataclass(frozen=True, slots=True)
class RelayReport:
    """A relay, as it stands."""

    reason: str  # why it does not; empty: it does
    draining: bool
    connections: int  # carried now
    waiting: int  # opened, and nothing asked for yet
    carried: int  # connections, those that have ended, too
    refused: int  # requests for what no gateway reaches, or beyond a limit
    failed: int  # requests for destinations that did not answer
    strangers: int
    bytes_up: int  # to servers
    bytes_down: int
    overhead_us: int  # what it holds an answer's bytes back; 0: not known
    busy_percent: int  # of one processor, the least idle one of its host
    congestion: str  # what it sends with


@dataclass(frozen=True, slots=True)
class RelayReached:
    name: str
    reason: str  # why it cannot be; empty: it can
    connections: int  # by it, now
    opened: int  # in store
    setup_us: int  # TCP and TLS of the last that was opened; 0: none was


@dataclass(frozen=True, slots=True)
class TerminalTaken:
    name: str
    connections: int  # now
    relayed: int  # connections, since the order came
    direct: int
    reset: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, slots=True)
class SoughtDestination:
    """A place for which no choice stands."""

    prefix: str  # a /24 or a /48
    address: str  # that was asked for there
    port: int


@dataclass(frozen=True, slots=True)
class Taking:
    """Terminals' connections, as a gateway takes them."""

    reason: str  # why nothing is taken; empty: it is
    relays: tuple[RelayReached, ...]
    terminals: tuple[TerminalTaken, ...]
    sought: tuple[SoughtDestination, ...]  # the newest first


@dataclass(frozen=True, slots=True)
class Router:
    address: str  # empty: it does not say
    rtt_us: int


@dataclass(frozen=True, slots=True)
class Distance:
    address: str
    reason: str  # why it is not known; empty: it is
    rtt_us: int  # the least; 0: not known
    routers: tuple[Router, ...]  # the nearest first


@dataclass(frozen=True, slots=True)
class Walked:
    """What came of an order to walk."""

    session: int
    directive: int
    ways: tuple[Distance, ...]  # in the order of the order


# Capabilities of a gateway's agent
ELIMINATES = "eliminate"
TUNNELS = "tunnel"
NARROWS = "window"
PROBE = "probe"  # measures paths, or answers who does
TAKES = "take"
# Capabilities of a relay's agent
RELAYS = "relay"
# Capabilities of every agent
WALKS = "walk"
# Capabilities of a terminal's agent
REPORTS = "report"  # of its connections
CAPS = "caps"
CLAMPS = "clamp"

MOST_SUBFLOWS = 1024  # of a host's own report that are read; those are told first that heard of their peers last


class Role(StrEnum):
    TERMINAL = "terminal"
    GATEWAY = "gateway"
    RELAY = "relay"


class PathManager(StrEnum):
    KERNEL = "kernel"  # flags by endpoint, for every connection of the namespace
    USERSPACE = "userspace"  # flags by connection


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    available: bool
    reason: str  # why not, and what to do


SubflowKey = tuple[str, int, str, int]  # address and port of this end, and of the other


@dataclass(frozen=True, slots=True)
class Subflow:
    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    backup_by_us: bool
    backup_by_peer: bool
    srtt_us: int
    min_rtt_us: int
    cwnd_segments: int
    in_flight_segments: int
    delivery_rate_bps: int
    segments_sent: int
    retransmits: int  # segments, in all
    bytes_acked: int
    bytes_received: int
    since_ack_ms: int  # since the last acknowledgement of ours came

    @property
    def key(self) -> SubflowKey:
        return self.local_address, self.local_port, self.remote_address, self.remote_port


@dataclass(frozen=True, slots=True)
class Connection:
    token: int  # 0: plain TCP
    serves: bool  # this end accepted it
    subflows: tuple[Subflow, ...]


@dataclass(frozen=True, slots=True)
class PathCopies:
    """Of what came in by one path, since the order was given."""

    name: str
    native: bool  # the port's own driver runs the program
    first: int  # passed: no other path had brought it
    eliminated: int
    late: int  # passed: another path had brought it, longer ago than the window
    rogue: int  # passed: this path itself had brought it within the window
    evicted: int  # won by this path, and forgotten for want of room
    unidentified: int  # passed: too long, with IPv4 options, or what no receiver takes
    not_forwarded: int  # passed: no IP, not for the port's MAC address, or near the end of its hop limit
    skew: tuple[int, ...]  # [n]: copies that came 2^n to 2^(n+1) ns after the first

    @property
    def arrived(self) -> int:
        return self.first + self.eliminated + self.late + self.rogue


@dataclass(frozen=True, slots=True)
class Elimination:
    """What became of copies at a site."""

    window_us: int
    paths: tuple[PathCopies, ...]
    missing: tuple[tuple[str, str], ...]  # ports without a program, and why


@dataclass(frozen=True, slots=True)
class TunnelEnd:
    """A tunnel as one of its ends has it."""

    name: str  # the uplink's
    reason: str  # why it is not made, or nobody is heard; empty: the other end is
    peer: str  # the other end's outer address and port; empty: nobody was ever heard
    heard_ms: int | None  # since the other end was heard; None: never
    rtt_us: int  # 0: no question was answered
    mtu_bytes: int  # the longest IP packet that goes through both ways; 0: not known yet
    moves: int  # how often the other end had another outer address than before
    strangers: int  # packets that came for it from somebody else


@dataclass(frozen=True, slots=True)
class Tunnelling:
    ends: tuple[TunnelEnd, ...]
    largest_bytes: int  # an IP packet that goes into every tunnel that is up; 0: none is known
    missing: tuple[tuple[str, str], ...]  # ports where senders are not told so, and why


@dataclass(frozen=True, slots=True)
class Passing:
    """A connection of a terminal as its gateway sees it pass."""

    terminal_address: str
    terminal_port: int
    other_address: str
    other_port: int
    bytes_sent: int  # acknowledged to the terminal, since it was first seen
    srtt_us: int  # from the terminal to the other end and back; 0: not known yet
    min_rtt_us: int
    since_data_ms: int  # since the last data came from the terminal
    joined: bool  # a further subflow of an MPTCP connection
    has_scale: bool  # its beginning was seen, so its window can be lowered


@dataclass(frozen=True, slots=True)
class Capping:
    """What holds caps at a host, and what it sees."""

    hand: str  # congestion-control, clamp or window; empty: none, only reports
    held: int  # connections that are under a cap now
    missing: tuple[tuple[str, str], ...]  # ports without a program, and why
    passing: tuple[Passing, ...] = ()  # at a gateway


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_us: int  # since the agent was started
    rss_bytes: int


# Events


@dataclass(frozen=True, slots=True)
class AgentOpened:
    session: int
    name: str  # of its certificate
    peer: str
    role: Role
    path_manager: PathManager
    version: str
    capabilities: tuple[Capability, ...]
    addresses: tuple[str, ...]
    terminal: str | None = None  # that its certificate lets it speak for; None: the one of its name


@dataclass(frozen=True, slots=True)
class AgentClosed:
    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reported:
    session: int
    sequence: int
    interval_ms: int
    connections: tuple[Connection, ...]
    cost: Cost
    elimination: Elimination | None = None  # None: none are ordered to be eliminated
    tunnelling: Tunnelling | None = None  # None: no tunnels are ordered
    capping: Capping | None = None  # None: nothing of caps was ordered
    answering: Answering | None = None  # None: nobody is to be answered
    health: tuple[PathHealth, ...] = ()
    relaying: RelayReport | None = None  # None: it is no relay
    taking: Taking | None = None  # None: nothing is to be taken
    cut: bool = False  # it told of more than MOST_SUBFLOWS
    confirmed: frozenset[SubflowKey] | None = None  # of a server's: the subflows that count; None: all do


@dataclass(frozen=True, slots=True)
class Resulted:
    session: int
    directive: int
    done: bool
    said: str  # what was done, or why not
    connections: int  # that it reached
    took_us: int


@dataclass(frozen=True, slots=True)
class FailoverFired:
    session: int
    name: str  # of the armed failover
    said: str
    stalled_ms: int
    connections: int
    at_us: int  # of the agent's clock: what is told twice fired once


AgentEvent = AgentOpened | AgentClosed | Reported | Resulted | FailoverFired | ProbeReport | Walked
