# SPDX-License-Identifier: Apache-2.0
"""Reports of agents.

`session` numbers one stream of one agent, so that late messages of an old stream are recognized. `directive` is the
order's (orders.py). An empty `reason` means success. `name` is the uplink's in values about paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

# Measured paths

LATE_S = 10  # a window with packets at any probing rate


@dataclass(frozen=True, slots=True)
class Answering:
    """A host's answers to probes."""

    reason: str


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
    reason: str  # why the one-way figures are unknown
    there_median_us: int
    there_p95_us: int
    there_jitter_us: int
    back_median_us: int
    back_p95_us: int
    back_jitter_us: int


@dataclass(frozen=True, slots=True)
class PathHealth:
    """Health of one path. An order restarts the counts."""

    name: str
    reason: str
    sent: int  # over a second ago: each is answered or lost
    lost: int
    lost_there: int  # on the way there; some losses have no known direction
    lost_back: int
    late: int  # noticeably above the last minute's minimum
    windows: tuple[HealthWindow, ...]

    @property
    def answers(self) -> bool:
        late = next((window for window in self.windows if window.seconds == LATE_S), None)
        return late is not None and late.sent > late.lost


@dataclass(frozen=True, slots=True)
class ProbePacket:
    """One probe packet. Times are nanoseconds since an unspecified moment; None: unknown.

    `sent_ns` and `returned_ns` are by the sender's clock, the others by the receiver's. Without `received_ns` and
    `returned_ns` the packet or its answer was lost.
    """

    train: int  # from 1; 0: a single packet
    length: int  # UDP payload
    sent_ns: int | None
    received_ns: int | None
    answered_ns: int | None
    returned_ns: int | None

    @property
    def came(self) -> bool:
        """Return whether the packet arrived. Kernels miss the first timestamps, so either time is proof."""
        return self.received_ns is not None or self.returned_ns is not None

    @property
    def timed(self) -> bool:
        return self.sent_ns is not None and self.received_ns is not None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The result of an order to probe."""

    session: int
    directive: int
    reason: str  # why packets are missing
    transport: str  # udp or udp6; empty: nothing was sent
    packets: tuple[ProbePacket, ...]


# Relayed connections and distances


@dataclass(frozen=True, slots=True)
class RelayReport:
    """The state and counters of a relay."""

    reason: str
    draining: bool
    connections: int
    waiting: int  # without a request yet
    carried: int  # so far, including ended connections
    refused: int  # disallowed destinations, or beyond a limit
    failed: int  # destinations did not answer
    unauthenticated: int
    bytes_up: int  # to servers
    bytes_down: int
    overhead_us: int  # added to an answer; 0: unknown
    busy_percent: int  # the busiest processor
    congestion: str


@dataclass(frozen=True, slots=True)
class RelayReached:
    name: str
    reason: str
    connections: int  # by this relay
    opened: int  # in advance
    setup_us: int  # TCP and TLS handshakes of the last one; 0: none


@dataclass(frozen=True, slots=True)
class TerminalInterception:
    name: str
    connections: int
    relayed: int  # since the order
    direct: int
    reset: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, slots=True)
class PendingDestination:
    """A destination prefix without a choice."""

    prefix: str  # a /24 or a /48
    address: str  # requested by a terminal
    port: int


@dataclass(frozen=True, slots=True)
class InterceptionReport:
    """A gateway's intercepted connections."""

    reason: str
    relays: tuple[RelayReached, ...]
    terminals: tuple[TerminalInterception, ...]
    pending: tuple[PendingDestination, ...]  # newest first


@dataclass(frozen=True, slots=True)
class Router:
    address: str  # empty: no answer
    rtt_us: int


@dataclass(frozen=True, slots=True)
class Distance:
    address: str
    reason: str
    rtt_us: int  # shortest; 0: unknown
    routers: tuple[Router, ...]  # nearest first


@dataclass(frozen=True, slots=True)
class DistancesMeasured:
    """The result of an order to measure distances."""

    session: int
    directive: int
    distances: tuple[Distance, ...]


# Capabilities of a gateway's agent
ELIMINATES = "eliminate"
TUNNELS = "tunnel"
NARROWS = "window"
PROBE = "probe"  # also answers probes
INTERCEPTS = "take"
# Capabilities of a relay's agent
RELAYS = "relay"
# Capabilities of every agent
MEASURES_DISTANCES = "walk"
# Capabilities of a terminal's agent
REPORTS = "report"
CAPS = "caps"
CLAMPS = "clamp"
MOVES = "mptcp"

MOST_SUBFLOWS = 1024  # per host's report, most recently active first


class Role(StrEnum):
    TERMINAL = "terminal"
    GATEWAY = "gateway"
    RELAY = "relay"


class PathManager(StrEnum):
    KERNEL = "kernel"  # by endpoint, for the whole namespace
    USERSPACE = "userspace"  # by connection


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    available: bool
    reason: str  # and what to do


SubflowKey = tuple[str, int, str, int]  # address and port of this end, then of the other


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
    segments_sent: int
    retransmits: int  # segments in total
    bytes_acked: int
    bytes_received: int
    since_ack_ms: int  # since sent data was last acknowledged

    @property
    def key(self) -> SubflowKey:
        return self.local_address, self.local_port, self.remote_address, self.remote_port


@dataclass(frozen=True, slots=True)
class Connection:
    token: int  # 0: plain TCP
    serves: bool  # accepted by this end
    subflows: tuple[Subflow, ...]


class Missing(NamedTuple):
    port: str
    reason: str


@dataclass(frozen=True, slots=True)
class PathCopies:
    """Counters of arrivals by one path since the order to eliminate."""

    name: str
    native: bool  # in the port's own driver
    first: int  # first copies, passed
    eliminated: int
    late: int  # passed: delivered by another path before the window
    rogue: int  # passed: delivered by this path within the window
    evicted: int  # delivered first by this path, then forgotten: the table was full
    unidentified: int  # passed: too long, with IPv4 options, or damaged
    not_forwarded: int  # no IP, not for the port's MAC address, or an expiring hop limit
    skew: tuple[int, ...]  # [n]: 2^n to 2^(n+1) ns after the first copy

    @property
    def arrived(self) -> int:
        return self.first + self.eliminated + self.late + self.rogue


@dataclass(frozen=True, slots=True)
class Elimination:
    """Elimination of copies at a site."""

    window_us: int
    paths: tuple[PathCopies, ...]
    missing: tuple[Missing, ...]  # without a program


@dataclass(frozen=True, slots=True)
class TunnelEnd:
    """The state of a tunnel at one of its ends."""

    name: str
    reason: str  # no device, or no packet from the peer
    peer: str  # outer address and port; empty: no packet yet
    since_packet_ms: int | None  # since the last message of the peer; None: none yet
    rtt_us: int  # 0: no probe answered
    mtu_bytes: int  # of IP packets, both directions; 0: unknown
    moves: int  # of the peer's outer address


@dataclass(frozen=True, slots=True)
class Tunnelling:
    ends: tuple[TunnelEnd, ...]
    largest_bytes: int  # IP packet that fits every tunnel that is up; 0: unknown
    missing: tuple[Missing, ...]  # where senders do not learn it


@dataclass(frozen=True, slots=True)
class Passing:
    """A terminal's connection, seen by its gateway."""

    terminal_address: str
    terminal_port: int
    other_address: str
    other_port: int
    bytes_sent: int  # acknowledged to the terminal since first seen
    srtt_us: int  # from the terminal and back; 0: unknown
    min_rtt_us: int
    since_data_ms: int  # from the terminal
    joined: bool  # a further subflow of MPTCP
    has_scale: bool  # the handshake was seen: the window can be lowered


@dataclass(frozen=True, slots=True)
class Capping:
    """Caps at a host: enforcement and observations."""

    method: str  # congestion-control, clamp or window; empty: reports only
    held_sockets: int  # connections with a cap now
    missing: tuple[Missing, ...]  # without a program
    passing: tuple[Passing, ...] = ()  # at a gateway


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_us: int  # since the agent's start
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
    terminal: str | None = None  # in the certificate; None: the one of its name


@dataclass(frozen=True, slots=True)
class AgentClosed:
    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class InterfaceCounters:
    name: str
    bytes_sent: int
    bytes_received: int


@dataclass(frozen=True, slots=True)
class LanDevice:
    """A device with an address from DHCP of a gateway's host."""

    name: str  # as it calls itself; empty: unknown
    address: str
    mac: str


@dataclass(frozen=True, slots=True)
class Reported:
    session: int
    sequence: int
    interval_ms: int
    connections: tuple[Connection, ...]
    cost: Cost
    elimination: Elimination | None = None  # None, here and below: not ordered
    tunnelling: Tunnelling | None = None
    capping: Capping | None = None
    answering: Answering | None = None
    health: tuple[PathHealth, ...] = ()
    relay: RelayReport | None = None  # None: no relay
    interception: InterceptionReport | None = None
    interfaces: tuple[InterfaceCounters, ...] = ()  # of a gateway's host
    devices: tuple[LanDevice, ...] = ()  # likewise
    cut: bool = False  # there were more than MOST_SUBFLOWS
    confirmed: frozenset[SubflowKey] | None = None  # for a server's report: subflows that count; None: all


@dataclass(frozen=True, slots=True)
class Resulted:
    session: int
    directive: int
    done: bool
    answer: str  # what was done, or why not
    connections: int  # reached
    took_us: int


@dataclass(frozen=True, slots=True)
class FailoverFired:
    session: int
    name: str  # of the armed failover
    answer: str
    stalled_ms: int
    connections: int
    monotonic_us: int  # agent's clock; equal times are one firing


AgentEvent = AgentOpened | AgentClosed | Reported | Resulted | FailoverFired | ProbeReport | DistancesMeasured
