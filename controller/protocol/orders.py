# SPDX-License-Identifier: Apache-2.0
"""Orders of the core to agents, as values, and the numbers of all orders, including those to switches.

`directive` numbers one order and comes back with its result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from controller.model.known import PortRange


class Tickets:
    """Numbers of orders. Each is higher than the one before, so an answer shows its age."""

    def __init__(self) -> None:
        self._next = count(1)

    def draw(self) -> int:
        return next(self._next)


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

    paths: tuple[tuple[str, str, str | None], ...] = ()  # an uplink's name, its port, and the MAC address that is
    # written for it; None: the device's own
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
    ends: tuple[
        bytes, ...
    ] = ()  # SHA-256 of the certificates of both sites' agents: with another one the key is another


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


# Probing. The core does not know the keys: each belongs to one meeting of two agents, which has a number.


@dataclass(frozen=True, slots=True)
class AnswerSession:
    number: int
    health_port: int  # UDP, of any address; sessions may share it
    probe_port: int  # of this one alone
    meeting: int
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AnswerProbes:
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
class HealthProbes:
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


# Relays


@dataclass(frozen=True, slots=True)
class RelayClient:
    name: str
    certificate_sha256: bytes  # one that counts


@dataclass(frozen=True, slots=True)
class Onward:
    """Further subflows of gateways' connections with another relay, passed on packet by packet."""

    port: int  # here
    address: str  # the other relay's
    other_port: int


@dataclass(frozen=True, slots=True)
class Relay:
    """Be one, at this port; or none: port 0."""

    port: int = 0
    gateways: tuple[RelayClient, ...] = ()  # who is served, and nobody else
    allowed: tuple[PortRange, ...] = ()
    congestion: str | None = None  # None: as the kernel likes
    draining: bool = False
    onward: tuple[Onward, ...] = ()
    certificate: bytes = field(default=b"", repr=False)  # of the agent's own key, which the core does not know


@dataclass(frozen=True, slots=True)
class LocalAddress:
    uplink: str
    addresses: tuple[str, ...]  # one of a family at most


@dataclass(frozen=True, slots=True)
class TakenTerminal:
    name: str
    addresses: tuple[str, ...]  # its own
    locals: tuple[LocalAddress, ...]  # of the gateway's host, by which it speaks for the terminal: the best first


@dataclass(frozen=True, slots=True)
class InterceptUplink:
    name: str
    port: str
    gateways: tuple[str, ...]  # the bridge's addresses there, ADDRESS/LENGTH


@dataclass(frozen=True, slots=True)
class TakingRelay:
    name: str
    address: str
    port: int
    draining: bool = False
    onward: tuple[Onward, ...] = ()
    key_sha256: bytes = b""  # of the public key that its certificate is for


@dataclass(frozen=True, slots=True)
class Take:
    """Carry the TCP connections of these terminals to relays; of none: everything is as before."""

    port: str = ""
    terminals: tuple[TakenTerminal, ...] = ()
    uplinks: tuple[InterceptUplink, ...] = ()
    relays: tuple[TakingRelay, ...] = ()
    block: bool = False  # what cannot be relayed is reset; else the gateway's host connects
    left_alone: tuple[str, ...] = ()  # networks


@dataclass(frozen=True, slots=True)
class RelayChoice:
    prefix: str
    relays: tuple[str, ...]  # none: directly
    together: bool = False  # connections are spread over all of them


@dataclass(frozen=True, slots=True)
class Choices:
    choices: tuple[RelayChoice, ...] = ()


@dataclass(frozen=True, slots=True)
class WalkTo:
    address: str
    port: int = 0  # TCP, where nobody answers to pings; 0: none
    routers: bool = False  # those on the way, too


@dataclass(frozen=True, slots=True)
class Walk:
    to: tuple[WalkTo, ...]


Directive = (
    ReportEvery
    | Prefer
    | Arm
    | Disarm
    | Eliminate
    | Tunnels
    | Caps
    | AnswerProbes
    | HealthProbes
    | Probe
    | Relay
    | Take
    | Choices
    | Walk
)


@dataclass(frozen=True, slots=True)
class Direct:
    session: int
    directive: int
    order: Directive


@dataclass(frozen=True, slots=True)
class HangUp:
    session: int
    reason: str
    fault: bool = False  # the core failed at a word of this agent


AgentEffect = Direct | HangUp
