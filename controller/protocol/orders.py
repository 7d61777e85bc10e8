# SPDX-License-Identifier: Apache-2.0
"""Orders to agents, and the numbers of all orders, including those to switches.

`directive` numbers one order and comes back with its result. `name` is the uplink's in orders about paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from controller.model.overrides import PortRange


class Tickets:
    """Increasing numbers of orders: an answer shows its age."""

    def __init__(self) -> None:
        self._next = count(1)

    def draw(self) -> int:
        return next(self._next)


@dataclass(frozen=True, slots=True)
class ReportEvery:
    interval_ms: int


@dataclass(frozen=True, slots=True)
class Prefer:
    """Move connections to a path, given by the terminal's addresses on it."""

    path: tuple[str, ...]
    others: tuple[tuple[str, ...], ...]
    hard: bool  # all other paths are dead


@dataclass(frozen=True, slots=True)
class Arm:
    name: str  # replaces an earlier one of the same name
    watched: tuple[str, ...]
    fallback: tuple[str, ...]
    no_progress_ms: int
    no_progress_many_ms: int  # with many segments in flight; at most no_progress_ms
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Disarm:
    name: str


class CopyPath(NamedTuple):
    name: str
    port: str
    mac: str | None  # the configured one; None: the device's own


@dataclass(frozen=True, slots=True)
class Eliminate:
    """Pass only the first of several copies. Without paths, pass everything."""

    paths: tuple[CopyPath, ...] = ()
    numbered_ports: tuple[str, ...] = ()  # ports of traffic that is not copied yet
    window_floor_ms: int = 0
    window_ceiling_ms: int = 0


@dataclass(frozen=True, slots=True)
class TunnelOrder:
    name: str
    port: str  # device to create
    vni: int
    udp_port: int
    device: str | None  # None: by the routes
    remote: str | None  # None: learned from the authenticated peer
    clear: bool = False  # without encryption
    peer_key: bytes = b""  # the other end's public key; empty: unknown yet
    key: bytes = field(default=b"", repr=False)  # preshared; the core does not know it
    keys: tuple[bytes, ...] = ()  # SHA-256 of both agents' public keys; a new one means another preshared key


@dataclass(frozen=True, slots=True)
class Tunnels:
    """Have exactly these tunnels."""

    tunnels: tuple[TunnelOrder, ...] = ()
    fitted_ports: tuple[str, ...] = ()  # ports of traffic for the tunnels
    lan_ports: tuple[str, ...] = ()  # down while no tunnel is up


@dataclass(frozen=True, slots=True)
class Cap:
    """A window per connection between two addresses. The subflows of an MPTCP connection share one."""

    terminal_address: str
    other_address: str
    most_segments: int
    least_segments: int = 0  # 0: none
    pace_bps: int = 0  # if two segments per connection are too many; 0: none


@dataclass(frozen=True, slots=True)
class Caps:
    """Enforce exactly these caps until the lease ends."""

    lease_ms: int
    caps: tuple[Cap, ...] = ()
    sharers: int = 0  # active terminals of the access point; 0: unknown
    block_bytes: int = 0  # recommended write size of a local program; 0: none
    ports: tuple[str, ...] = ()  # of the terminals; gateways only


# Probing. A meeting pairs one session of each of two agents. Its number selects a key that the core does not know.


@dataclass(frozen=True, slots=True)
class AnswerSession:
    number: int
    health_port: int  # UDP; sessions may share it
    probe_port: int  # UDP, for this session alone
    meeting: int
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AnswerProbes:
    """Answer exactly these sessions' probes."""

    sessions: tuple[AnswerSession, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeRoute:
    """The route of an agent's probes."""

    device: str | None  # None: by the routes
    local: str | None  # None: the device's, or by the routes
    remote: str


@dataclass(frozen=True, slots=True)
class HealthPath:
    name: str
    route: ProbeRoute
    port: int  # the other end's
    number: int
    pause_ms: int
    meeting: int
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class HealthProbes:
    """Send small packets continuously along exactly these paths."""

    paths: tuple[HealthPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """Measure a path once: `tries` packets of each length, and trains of the longest."""

    name: str
    route: ProbeRoute
    port: int  # the other end's
    down: bool  # from the other end to this agent
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
    key_sha256: bytes  # of its valid certificate


@dataclass(frozen=True, slots=True)
class PortForward:
    """A port that forwards gateways' further subflows to another relay, packet by packet."""

    port: int
    address: str  # of the other relay
    other_port: int


@dataclass(frozen=True, slots=True)
class Relay:
    """Serve as a relay at this port; 0: stop."""

    port: int = 0
    gateways: tuple[RelayClient, ...] = ()  # the only clients
    allowed: tuple[PortRange, ...] = ()
    congestion: str | None = None  # None: the kernel's default
    draining: bool = False
    onward: tuple[PortForward, ...] = ()
    certificate: bytes = field(default=b"", repr=False)  # of the agent's own key pair


@dataclass(frozen=True, slots=True)
class LocalAddress:
    uplink: str
    addresses: tuple[str, ...]  # at most one per family


@dataclass(frozen=True, slots=True)
class InterceptedTerminal:
    name: str
    addresses: tuple[str, ...]  # the terminal's own
    locals: tuple[LocalAddress, ...]  # the host's, best first


@dataclass(frozen=True, slots=True)
class InterceptUplink:
    name: str
    port: str
    gateways: tuple[str, ...]  # the bridge's, ADDRESS/LENGTH


@dataclass(frozen=True, slots=True)
class InterceptRelay:
    name: str
    address: str
    port: int
    draining: bool = False
    onward: tuple[PortForward, ...] = ()
    key_sha256: bytes = b""  # public key in the relay's certificate


@dataclass(frozen=True, slots=True)
class Intercept:
    """Relay the TCP of exactly these terminals."""

    port: str = ""
    terminals: tuple[InterceptedTerminal, ...] = ()
    uplinks: tuple[InterceptUplink, ...] = ()
    relays: tuple[InterceptRelay, ...] = ()
    block: bool = False  # reset what cannot be relayed; else the gateway's host connects
    excepted: tuple[str, ...] = ()  # TCP to these networks is not relayed


@dataclass(frozen=True, slots=True)
class RelayChoice:
    prefix: str
    relays: tuple[str, ...]  # none: direct
    together: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    choices: tuple[RelayChoice, ...] = ()


@dataclass(frozen=True, slots=True)
class DistanceTarget:
    address: str
    port: int = 0  # TCP, if pings are not answered; 0: none
    routers: bool = False


@dataclass(frozen=True, slots=True)
class MeasureDistances:
    targets: tuple[DistanceTarget, ...]


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
    | Intercept
    | Choices
    | MeasureDistances
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
    fault: bool = False  # the core failed at a report of this agent


AgentEffect = Direct | HangUp
