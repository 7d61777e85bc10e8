"""What agents say, and beside it what they are told (orders.py). api/agent.proto, as values.

`session` numbers one stream of one agent, so that a late word of an old stream is known as such; `directive` numbers
one order of the core and comes back with its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.carried import Relaying as Relaying
from controller.carried import RelayReached as RelayReached
from controller.carried import Router as Router
from controller.carried import Sought as Sought
from controller.carried import Taking as Taking
from controller.carried import TerminalTaken as TerminalTaken
from controller.carried import Walked as Walked
from controller.carried import Way as Way
from controller.measures import Answering as Answering
from controller.measures import HealthWindow as HealthWindow
from controller.measures import PathHealth as PathHealth
from controller.measures import Probed as Probed
from controller.measures import ProbePacket as ProbePacket
from controller.orders import AgentEffect as AgentEffect
from controller.orders import Answer as Answer
from controller.orders import AnswerSession as AnswerSession
from controller.orders import Arm as Arm
from controller.orders import Cap as Cap
from controller.orders import Caps as Caps
from controller.orders import Direct as Direct
from controller.orders import Directive as Directive
from controller.orders import Disarm as Disarm
from controller.orders import Eliminate as Eliminate
from controller.orders import HangUp as HangUp
from controller.orders import Health as Health
from controller.orders import HealthPath as HealthPath
from controller.orders import MeasuredWay as MeasuredWay
from controller.orders import Prefer as Prefer
from controller.orders import Probe as Probe
from controller.orders import ReportEvery as ReportEvery
from controller.orders import TunnelOrder as TunnelOrder
from controller.orders import Tunnels as Tunnels

# Capabilities of a gateway's agent
ELIMINATES = "eliminate"
TUNNELS = "tunnel"
NARROWS = "window"
PROBE = "probe"  # measures paths, or answers who does
TAKES = "take"
# Of a relay's
RELAYS = "relay"
# Of anybody's
WALKS = "walk"
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
    relaying: Relaying | None = None  # None: it is no relay
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
class ReflexFired:
    session: int
    name: str  # of the reflex
    said: str
    stalled_ms: int
    connections: int
    at_us: int  # of the agent's clock: what is told twice fired once


AgentEvent = AgentOpened | AgentClosed | Reported | Resulted | ReflexFired | Probed | Walked
