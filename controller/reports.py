"""The words between the core and agents: what they report, and what they are told to do. api/agent.proto, as values.

`session` numbers one stream of one agent, so that a late word of an old stream is known as such; `directive` numbers
one order of the core and comes back with its result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

# Capabilities of a gateway's agent
ELIMINATES = "eliminate"
TUNNELS = "tunnel"
NARROWS = "window"
# Of a terminal's
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
    unidentified: int  # passed: no IP, or nothing that tells it from another
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
    because: str  # why it is not made, or nobody is heard; empty: the other end is
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


# What an agent says


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
    cut: bool = False  # it told of more than MOST_SUBFLOWS


@dataclass(frozen=True, slots=True)
class Resulted:
    session: int
    directive: int
    done: bool
    said: str  # what was done, or why not
    connections: int  # that it reached
    took_us: int


@dataclass(frozen=True, slots=True)
class ReflexFired:
    session: int
    name: str  # of the reflex
    said: str
    stalled_ms: int
    connections: int
    at_us: int  # of the agent's clock: what is told twice fired once


AgentEvent = AgentOpened | AgentClosed | Reported | Resulted | ReflexFired


# What the core orders


@dataclass(frozen=True, slots=True)
class ReportEvery:
    interval_ms: int


@dataclass(frozen=True, slots=True)
class Prefer:
    """Paths are told by the terminal's addresses on them."""

    path: tuple[str, ...]
    others: tuple[tuple[str, ...], ...]
    hard: bool  # the others are dead


@dataclass(frozen=True, slots=True)
class Arm:
    name: str  # a second one of the same name replaces the first
    watched: tuple[str, ...]
    fallback: tuple[str, ...]
    no_progress_ms: int
    no_progress_many_ms: int  # with many segments in flight; no longer than the other
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Disarm:
    name: str


@dataclass(frozen=True, slots=True)
class Eliminate:
    """Let the first of several copies pass; with no paths everything passes."""

    paths: tuple[tuple[str, str], ...] = ()  # an uplink's name, and the port by which it comes in
    numbered_ports: tuple[str, ...] = ()  # where comes in what is to be copied
    window_floor_ms: int = 0
    window_ceiling_ms: int = 0


@dataclass(frozen=True, slots=True)
class TunnelOrder:
    name: str  # the uplink's
    port: str  # the network device that is made
    vni: int
    udp_port: int
    device: str | None  # by which it leaves; None: as routes say
    remote: str | None  # None: who proves to be the other end
    key: bytes = field(default=b"", repr=False)  # by which the ends know each other: not the core's to know


@dataclass(frozen=True, slots=True)
class Tunnels:
    """Have these, and no others."""

    tunnels: tuple[TunnelOrder, ...] = ()
    fitted_ports: tuple[str, ...] = ()  # where comes in what goes into them


@dataclass(frozen=True, slots=True)
class Cap:
    """Of each connection between these two; the subflows of one MPTCP connection share it."""

    terminal_address: str
    other_address: str
    most_segments: int
    least_segments: int = 0  # 0: none
    pace_bps: int = 0  # where the window cannot be so small; 0: no bound


@dataclass(frozen=True, slots=True)
class Caps:
    """Hold these, and no others, for as long as the lease."""

    lease_ms: int
    caps: tuple[Cap, ...] = ()
    sharers: int = 0  # active terminals of the access point; 0: not known
    block_bytes: int = 0  # that a local program had best write at once; 0: as it likes
    ports: tuple[str, ...] = ()  # of a gateway: where its terminals are


Directive = ReportEvery | Prefer | Arm | Disarm | Eliminate | Tunnels | Caps


@dataclass(frozen=True, slots=True)
class Direct:
    session: int
    directive: int
    order: Directive


@dataclass(frozen=True, slots=True)
class HangUp:
    session: int
    reason: str


AgentEffect = Direct | HangUp
