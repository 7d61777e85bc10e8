# SPDX-License-Identifier: Apache-2.0
"""Reports of agents, as values: connections, measured paths, relayed connections, and results of orders.

`session` numbers one stream of one agent, so that a late message of an old stream is recognized. `directive` numbers
one order of the core and comes back with its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Measured paths

LATE_S = 10  # length of a window that contains packets at any probing rate


@dataclass(frozen=True, slots=True)
class Answering:
    """Counters of the probes that a host answers."""

    reason: str  # why no probes are answered; empty: they are
    probes: int  # answered probes
    health_packets: int  # answered health packets
    strangers: int  # packets of no session, or with a bad authenticator
    replays: int
    too_many: int  # packets above the rate limit


@dataclass(frozen=True, slots=True)
class HealthWindow:
    """Health of a path over one window. One-way delays are above the last minute's minimum: clocks differ."""

    seconds: int
    sent: int
    lost: int
    lost_there: int
    lost_back: int
    reordered: int
    rtt_least_us: int  # without the far end's processing; 0: no answer
    rtt_median_us: int
    rtt_p95_us: int
    reason: str  # why the one-way figures are unknown; empty: they are known
    there_median_us: int
    there_p95_us: int
    there_jitter_us: int
    back_median_us: int
    back_p95_us: int
    back_jitter_us: int


@dataclass(frozen=True, slots=True)
class PathHealth:
    """Health of one path by small packets. An order restarts the counts."""

    name: str  # the uplink's
    reason: str  # why nothing is sent; empty: packets are sent
    sent: int  # more than a second ago, so each is answered or lost
    lost: int
    lost_there: int  # lost on the way there; the direction of some losses is unknown
    lost_back: int
    late: int  # answered noticeably later than the last minute's minimum
    windows: tuple[HealthWindow, ...]

    @property
    def answers(self) -> bool:
        """Return whether the other end has answered within LATE_S."""
        late = next((window for window in self.windows if window.seconds == LATE_S), None)
        return late is not None and late.sent > late.lost


@dataclass(frozen=True, slots=True)
class ProbePacket:
    """One probe packet. Times are nanoseconds since an unspecified moment; None: unknown.

    `sent_ns` and `heard_ns` are by the sender's clock, the others by the receiver's. A packet without `received_ns` and
    `heard_ns` was lost, or its answer was.
    """

    train: int  # from 1; 0: a single packet
    length: int  # of UDP payload
    sent_ns: int | None
    received_ns: int | None
    answered_ns: int | None
    heard_ns: int | None

    @property
    def came(self) -> bool:
        """Return whether the packet arrived. Kernels miss the first timestamps, so either time is proof."""
        return self.received_ns is not None or self.heard_ns is not None

    @property
    def timed(self) -> bool:
        return self.sent_ns is not None and self.received_ns is not None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The result of an order to probe."""

    session: int
    directive: int
    reason: str  # why fewer packets than ordered were sent; empty: all were
    transport: str  # udp or udp6; empty: no packet was sent
    hardware: bool  # both ends use timestamps of their network cards
    packets: tuple[ProbePacket, ...]  # in the order of sending


# Relayed connections and distances


@dataclass(frozen=True, slots=True)
class RelayReport:
    """The state and counters of a relay."""

    reason: str  # why the relay does not serve; empty: it does
    draining: bool
    connections: int  # relayed now
    waiting: int  # opened without a request yet
    carried: int  # connections relayed so far, including ended ones
    refused: int  # requests to disallowed destinations, or beyond a limit
    failed: int  # requests for destinations that did not answer
    strangers: int
    bytes_up: int  # to servers
    bytes_down: int
    overhead_us: int  # delay that the relay adds to an answer; 0: unknown
    busy_percent: int  # load of the host's busiest processor
    congestion: str  # congestion control in use


@dataclass(frozen=True, slots=True)
class RelayReached:
    name: str
    reason: str  # why the relay cannot be reached; empty: it can
    connections: int  # by this relay now
    opened: int  # connections opened in advance
    setup_us: int  # TCP and TLS handshakes of the last one opened; 0: none


@dataclass(frozen=True, slots=True)
class TerminalInterception:
    name: str
    connections: int  # open now
    relayed: int  # connections since the order
    direct: int
    reset: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, slots=True)
class PendingDestination:
    """A destination prefix for which no choice is in force."""

    prefix: str  # a /24 or a /48
    address: str  # a destination that a terminal asked for
    port: int


@dataclass(frozen=True, slots=True)
class InterceptionReport:
    """Terminals' connections that a gateway intercepts."""

    reason: str  # why nothing is intercepted; empty: it is
    relays: tuple[RelayReached, ...]
    terminals: tuple[TerminalInterception, ...]
    pending: tuple[PendingDestination, ...]  # newest first


@dataclass(frozen=True, slots=True)
class Router:
    address: str  # empty: the router does not answer
    rtt_us: int


@dataclass(frozen=True, slots=True)
class Distance:
    address: str
    reason: str  # why the distance is unknown; empty: it is known
    rtt_us: int  # the shortest; 0: unknown
    routers: tuple[Router, ...]  # nearest first


@dataclass(frozen=True, slots=True)
class DistancesMeasured:
    """The result of an order to measure distances."""

    session: int
    directive: int
    ways: tuple[Distance, ...]  # in the order of the order


# Capabilities of a gateway's agent
ELIMINATES = "eliminate"
TUNNELS = "tunnel"
NARROWS = "window"
PROBE = "probe"  # measures paths, and answers such probes
TAKES = "take"
# Capabilities of a relay's agent
RELAYS = "relay"
# Capabilities of every agent
WALKS = "walk"
# Capabilities of a terminal's agent
REPORTS = "report"  # reports the host's connections
CAPS = "caps"
CLAMPS = "clamp"

MOST_SUBFLOWS = 1024  # read per host's report; the most recently active come first


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
    reason: str  # why it is unavailable, and what to do


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
    retransmits: int  # segments in total
    bytes_acked: int
    bytes_received: int
    since_ack_ms: int  # since the last acknowledgement for sent data arrived

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
    """Counters of arrivals by one path since the order to eliminate."""

    name: str
    native: bool  # the port's own driver runs the program
    first: int  # passed: the first copy
    eliminated: int
    late: int  # passed: another path delivered it before the window
    rogue: int  # passed: this path delivered it within the window
    evicted: int  # delivered first by this path, and forgotten because the table was full
    unidentified: int  # passed: too long, with IPv4 options, or damaged
    not_forwarded: int  # passed: no IP, not for the port's MAC address, or with an expiring hop limit
    skew: tuple[int, ...]  # [n]: copies that came 2^n to 2^(n+1) ns after the first

    @property
    def arrived(self) -> int:
        return self.first + self.eliminated + self.late + self.rogue


@dataclass(frozen=True, slots=True)
class Elimination:
    """Elimination of copies at a site."""

    window_us: int
    paths: tuple[PathCopies, ...]
    missing: tuple[tuple[str, str], ...]  # ports without a program, and why


@dataclass(frozen=True, slots=True)
class TunnelEnd:
    """The state of a tunnel at one of its ends."""

    name: str  # the uplink's
    reason: str  # why there is no device, or no peer is heard; empty: the peer is heard
    peer: str  # the peer's outer address and port; empty: never heard
    heard_ms: int | None  # since the peer was last heard; None: never
    rtt_us: int  # 0: no probe was answered
    mtu_bytes: int  # the longest IP packet that passes in both directions; 0: unknown yet
    moves: int  # changes of the peer's outer address
    strangers: int  # unauthenticated packets to this tunnel


@dataclass(frozen=True, slots=True)
class Tunnelling:
    ends: tuple[TunnelEnd, ...]
    largest_bytes: int  # longest IP packet that fits every tunnel that is up; 0: unknown
    missing: tuple[tuple[str, str], ...]  # ports where senders do not learn of it, with the reason


@dataclass(frozen=True, slots=True)
class Passing:
    """A terminal's connection as its gateway observes it."""

    terminal_address: str
    terminal_port: int
    other_address: str
    other_port: int
    bytes_sent: int  # acknowledged to the terminal since the connection was first seen
    srtt_us: int  # terminal to other end and back; 0: unknown yet
    min_rtt_us: int
    since_data_ms: int  # since the terminal's last data
    joined: bool  # a further subflow of an MPTCP connection
    has_scale: bool  # its handshake was seen, so its window can be lowered


@dataclass(frozen=True, slots=True)
class Capping:
    """The enforcement of caps at a host, and its observations."""

    method: str  # congestion-control, clamp or window; empty: none, only reports
    held_sockets: int  # connections with a cap now
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
    name: str  # in its certificate
    peer: str
    role: Role
    path_manager: PathManager
    version: str
    capabilities: tuple[Capability, ...]
    addresses: tuple[str, ...]
    terminal: str | None = None  # the terminal in its certificate; None: the one of its name


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
    elimination: Elimination | None = None  # None: no elimination was ordered
    tunnelling: Tunnelling | None = None  # None: no tunnels were ordered
    capping: Capping | None = None  # None: no caps were ordered
    answering: Answering | None = None  # None: no answering was ordered
    health: tuple[PathHealth, ...] = ()
    relaying: RelayReport | None = None  # None: the agent is no relay
    taking: InterceptionReport | None = None  # None: no interception was ordered
    cut: bool = False  # it had more than MOST_SUBFLOWS
    confirmed: frozenset[SubflowKey] | None = None  # for a server's report: subflows that count; None: all


@dataclass(frozen=True, slots=True)
class Resulted:
    session: int
    directive: int
    done: bool
    answer: str  # what was done, or why not
    connections: int  # that the order reached
    took_us: int


@dataclass(frozen=True, slots=True)
class FailoverFired:
    session: int
    name: str  # of the armed failover
    answer: str
    stalled_ms: int
    connections: int
    at_us: int  # by the agent's clock; equal times are one firing


AgentEvent = AgentOpened | AgentClosed | Reported | Resulted | FailoverFired | ProbeReport | DistancesMeasured
