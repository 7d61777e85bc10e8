"""What the core tells agents to do. api/agent.proto's directives, as values.

`directive` numbers one order and comes back with its result.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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


# Of measuring. Its keys are not the core's to know: each is of one meeting of two agents, which has a number.


@dataclass(frozen=True, slots=True)
class AnswerSession:
    number: int
    health_port: int  # UDP, of any address; sessions may share it
    probe_port: int  # of this one alone
    meeting: int
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """Those who measure the paths to here, and nobody else."""

    sessions: tuple[AnswerSession, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredWay:
    """How packets of an agent's own leave, and where they go."""

    device: str | None  # by which; None: as routes say
    local: str | None  # address that they have; None: the device's, or as routes say
    remote: str


@dataclass(frozen=True, slots=True)
class HealthPath:
    name: str  # the uplink's
    way: MeasuredWay
    port: int  # the other end's
    number: int  # of the session
    pause_ms: int  # between packets
    meeting: int
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Health:
    """Send small packets along these paths all the time, and along no others."""

    paths: tuple[HealthPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """Measure one path once: by packets of many lengths, each so many times, and by trains of the longest."""

    name: str  # the uplink's
    way: MeasuredWay
    port: int  # the other end's
    down: bool  # from the other end to here
    shortest_bytes: int
    longest_bytes: int
    step_bytes: int
    tries: int
    pause_us: int
    trains: int
    train_packets: int
    meeting: int
    key: bytes = field(default=b"", repr=False)


Directive = ReportEvery | Prefer | Arm | Disarm | Eliminate | Tunnels | Caps | Answer | Health | Probe


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
