# SPDX-License-Identifier: Apache-2.0
"""The snapshot: the readable state of the controller at one moment. The core replaces the whole value.

`sent` and `received` of a terminal are from its point of view. `sent` is counted by the flows that match its packets,
`received` by the flows to its delivery groups. Times are Unix seconds. Counters are those of the switch's last reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.features.caps.view import AccessPointView
from controller.features.probing.view import PathView
from controller.features.relays.view import InterceptionView, RelayView
from controller.features.steering.logbook import By
from controller.model.config import Mode
from controller.model.traffic import Address, Interface
from controller.policy.paths.health import UplinkHealth
from controller.program.program import GroupKind, PacketCounters, PortCounters
from controller.protocol.reports import PathCopies, PathManager, Role, TunnelEnd
from controller.switches.switch import GatewayState


class AgentState(StrEnum):
    HERE = "here"
    SILENT = "silent"  # no message for three periods: its last report no longer counts
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class NextHopView:
    address: Address
    mac: str | None  # None: neither configured nor learned yet


@dataclass(frozen=True, slots=True)
class TunnelView:
    up: bool
    reason: str | None  # why the tunnel is down
    end: TunnelEnd | None  # None: no agent reports it


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The use of an uplink by copies, and its limits. A limit of None is no limit."""

    copied_bytes: int  # today
    budget_bytes_per_day: int | None
    share: float  # of the bytes sent in the last minutes
    max_share: float | None
    barred: str | None  # why copies are suspended


@dataclass(frozen=True, slots=True)
class UplinkView:
    name: str
    port: str
    number: int | None  # None: the bridge has no such port
    up: bool
    addresses: tuple[Interface, ...]
    next_hops: tuple[NextHopView, ...]
    counters: PortCounters | None
    tunnel: TunnelView | None  # None: the uplink is no tunnel
    budget: BudgetView | None = None  # None: no budget, or the peer site counts it


@dataclass(frozen=True, slots=True)
class BucketView:
    uplink: str | None  # None: it delivers to a terminal
    counters: PacketCounters | None


@dataclass(frozen=True, slots=True)
class GroupView:
    id: int
    label: str
    kind: GroupKind
    buckets: tuple[BucketView, ...]


@dataclass(frozen=True, slots=True)
class SilentView:
    """An uplink without incoming copies while other uplinks have them: a latent fault."""

    uplink: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnidentifiedView:
    """An uplink with over 1 % packets that cannot be identified. Every copy of such a packet passes."""

    uplink: str
    reason: str


@dataclass(frozen=True, slots=True)
class CopiesView:
    """The copies of a site with a peer site."""

    copied: tuple[str, ...]  # protocols copied to every uplink in mode bicast, or "all"
    eliminated: bool  # only the first copy of an incoming packet passes
    reason: str | None  # why copies are not eliminated
    window_us: int | None  # time in which copies are recognised; None: no report
    paths: tuple[PathCopies, ...]  # counted since the order; empty: no report
    silent: tuple[SilentView, ...]
    unidentified: tuple[UnidentifiedView, ...]


@dataclass(frozen=True, slots=True)
class FittingView:
    """The packet size of tunnels that hosts inside learn."""

    largest_bytes: int | None  # of an IP packet; None: not known
    missing: tuple[tuple[str, str], ...]  # ports where hosts do not learn it, with the reason


@dataclass(frozen=True, slots=True)
class GatewayView:
    name: str
    dpid: str  # 16 hex digits, as in gateway.yaml
    bridge: str
    state: GatewayState
    since: float  # of the state
    peer: str | None  # None: not connected
    rival: str | None  # another peer with this dpid, rejected while the first one answers
    last_error: str | None
    reconciles: int
    changes_sent: int
    last_changes: int  # sent by the last reconcile
    refusals: int
    conflicts: tuple[str, ...]  # foreign flows that block flows of this controller
    uplinks: tuple[UplinkView, ...]
    groups: tuple[GroupView, ...]
    copies: CopiesView | None  # None: the site has no peer site
    fitting: FittingView | None  # None: no tunnels, or no report


@dataclass(frozen=True, slots=True)
class AddressView:
    address: Address
    subnet: str
    port: str
    mac: str | None  # None: neither configured nor learned yet


class ActiveBy(StrEnum):
    """The origin of the active uplink."""

    PEOPLE = "people"
    POLICIES = "policies"
    DEFAULT = "default"  # the configuration


@dataclass(frozen=True, slots=True)
class ClassView:
    """A named class of a terminal's traffic."""

    name: str
    mode: Mode
    mode_overridden: bool  # an override set it
    acting: Mode  # the mode that is in force now; never auto


@dataclass(frozen=True, slots=True)
class PassedView:
    """Packets of one class of a terminal's traffic, in one direction."""

    traffic: str  # a named class, protocols, "everything" or "everything else"
    sent: bool  # by the terminal; otherwise to the terminal
    copied: int  # over several uplinks
    alone: int  # over one uplink


@dataclass(frozen=True, slots=True)
class TrafficView:
    """Recent traffic, from the switches' counters."""

    seconds: float  # the interval, which ends at the last reading
    passed: tuple[PassedView, ...]


@dataclass(frozen=True, slots=True)
class TerminalView:
    name: str
    gateway: str
    mode: Mode  # of traffic outside `classes`
    acting: Mode  # the mode that is in force now; never auto
    active_uplink: str
    default_uplink: str
    access_point: str | None
    active_by: ActiveBy
    mode_overridden: bool  # an override set the mode and takes precedence over the file, as active_by "people" does
    addresses: tuple[AddressView, ...]
    sent: PacketCounters | None
    received: PacketCounters | None
    classes: tuple[ClassView, ...] = ()
    traffic: TrafficView = TrafficView(0.0, ())


@dataclass(frozen=True, slots=True)
class MissingView:
    capability: str
    reason: str


@dataclass(frozen=True, slots=True)
class AgentView:
    name: str
    role: Role
    state: AgentState
    since: float  # start of the session, or its end
    peer: str
    version: str
    path_manager: PathManager
    reported_at: float | None  # time of the last report; None: no report yet
    reports: int
    terminals: tuple[str, ...]  # whose connections it reports
    missing: tuple[MissingView, ...]
    cpu_us: int | None  # since the agent started
    rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class HealthView:
    """The health of an uplink for one terminal."""

    uplink: str
    health: UplinkHealth
    reason: str
    since: float
    addresses: tuple[str, ...]  # the terminal's addresses there; none: its connections have no path of their own there


@dataclass(frozen=True, slots=True)
class HandView:
    """The result of a decision at an agent, or at the gateway if `agent` is None."""

    agent: str | None
    done: bool | None  # None: no answer yet
    said: str
    connections: int
    took_us: int
    orders: int  # later orders move connections opened since


@dataclass(frozen=True, slots=True)
class DecisionView:
    number: int
    at: float
    by: By
    uplink: str
    left: str
    reason: str
    hard: bool  # data in flight on the old path is retransmitted
    copies: bool | None  # mode auto starts or ends copies; None: the decision is about the uplink
    hands: tuple[HandView, ...]  # the gateway comes first
    unmoved: str | None  # why no agent got an order
    reporters: tuple[str, ...] = ()  # agents whose reports caused it; empty: a person, a port or a timer did


@dataclass(frozen=True, slots=True)
class ArmedFailoverView:
    agent: str
    watched: str  # uplinks
    fallback: str
    no_progress_ms: int
    until: float
    refused: str | None  # why the agent refused it
    away: str | None  # why the agent is unreachable: it keeps the failover until `until`, unless it has ended


@dataclass(frozen=True, slots=True)
class EndView:
    """The agents that report one end of a terminal's connections."""

    agents: tuple[str, ...]
    nobody: str | None  # why no agent does


@dataclass(frozen=True, slots=True)
class CopyingView:
    """The state of copying for a terminal, and the reason. In mode auto a policy decides."""

    mode: Mode
    acting: Mode  # never auto
    reason: str
    since: float | None  # time of the decision; None: no decision
    copied: tuple[str, ...] = ()  # traffic copied in mode bicast: named classes and protocols, or "everything"
    whole: str | None = None  # why not everything is copied; None: everything is, or the file limits it
    traffic: TrafficView = TrafficView(0.0, ())


@dataclass(frozen=True, slots=True)
class CourseView:
    """The uplink of one terminal, the reason, and the alternatives."""

    terminal: str
    copying: CopyingView
    active_uplink: str
    active_by: ActiveBy
    movers: tuple[str, ...]  # agents that move its connections
    unmoved: str | None  # why there is no such agent
    own_end: EndView
    other_end: EndView
    uplinks: tuple[HealthView, ...]
    armed_failovers: tuple[ArmedFailoverView, ...]
    decisions: tuple[DecisionView, ...]  # the newest first


@dataclass(frozen=True, slots=True)
class Snapshot:
    version: str  # of the controller
    gateways: tuple[GatewayView, ...]
    terminals: tuple[TerminalView, ...]
    agents: tuple[AgentView, ...]
    config_path: str
    config_loaded_at: float
    config_failures: int
    config_error: str | None  # why the current file was refused; the previous one stays in force
    access_points: tuple[AccessPointView, ...]
    paths: tuple[PathView, ...]
    relays: tuple[RelayView, ...] = ()
    taking: tuple[InterceptionView, ...] = ()
    openflow_unproven: str | None = None  # why switches cannot tell this controller from another local process
