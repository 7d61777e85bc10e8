# SPDX-License-Identifier: Apache-2.0
"""The snapshot: the readable state of the controller. The core replaces the whole value.

`sent` and `received` are from the terminal's point of view, counted by flows that match its packets and by flows to its
delivery groups. Times are Unix seconds. Counters are those of the switch's last reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.features.caps.view import AccessPointView
from controller.features.probing.view import PathView
from controller.features.relays.view import InterceptionView, RelayView
from controller.features.steering.logbook import By
from controller.model.config import Mode
from controller.model.traffic import Address, Interface, Network
from controller.model.uplink import Period
from controller.policy.paths.health import UplinkHealth
from controller.program.program import PacketCounters, PortCounters
from controller.protocol.reports import PathCopies, PathManager, Role, TunnelEnd
from controller.switches.switch import GatewayState


class AgentState(StrEnum):
    HERE = "here"
    SILENT = "silent"  # for three periods: its last report no longer counts
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class NextHopView:
    address: Address
    mac: str | None  # None: neither configured nor learned


@dataclass(frozen=True, slots=True)
class TunnelView:
    up: bool
    reason: str | None  # why it is down
    end: TunnelEnd | None  # None: no agent reports it
    encrypted: bool = True


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The use of an uplink with limits. A limit of None is no limit."""

    used_bytes: int  # of the uplink in this period, by anybody
    budget_bytes: int | None
    period: Period
    share: float  # of copies in the bytes sent in the last minutes
    max_share: float | None
    nearly: str | None  # the warning that the budget is nearly used up
    barred: str | None  # why no copies are sent


@dataclass(frozen=True, slots=True)
class UplinkView:
    name: str
    port: str
    number: int | None  # None: the bridge has no such port
    up: bool
    addresses: tuple[Interface, ...]
    next_hops: tuple[NextHopView, ...]
    counters: PortCounters | None
    tunnel: TunnelView | None  # None: no tunnel
    budget: BudgetView | None = None  # None: no budget, or the peer site counts it


@dataclass(frozen=True, slots=True)
class BucketView:
    """The buckets towards one uplink of the groups that share a label. A snapshot has none: there are thousands."""

    gateway: str
    group: str
    uplink: str
    counters: PacketCounters


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

    copied: tuple[str, ...]  # protocols copied in mode bicast, or "all"
    eliminated: bool  # only the first copy passes
    reason: str | None  # why not
    window_us: int | None  # in which copies are recognised; None: no report
    paths: tuple[PathCopies, ...]  # since the order; empty: no report
    silent: tuple[SilentView, ...]
    unidentified: tuple[UnidentifiedView, ...]


@dataclass(frozen=True, slots=True)
class FittingView:
    """The packet size of tunnels that hosts inside learn."""

    largest_bytes: int | None  # of an IP packet; None: unknown
    missing: tuple[tuple[str, str], ...]  # ports, with the reason


@dataclass(frozen=True, slots=True)
class GatewayView:
    name: str
    dpid: str  # 16 hex digits
    bridge: str
    state: GatewayState
    since: float  # of the state
    peer: str | None  # None: not connected
    rival: str | None  # another peer with this dpid, rejected while the first answers
    last_error: str | None
    reconciles: int
    changes_sent: int
    last_changes: int  # by the last reconcile
    refusals: int
    conflicts: tuple[str, ...]  # foreign flows that block flows of ours
    uplinks: tuple[UplinkView, ...]
    copies: CopiesView | None  # None: no peer site
    fitting: FittingView | None  # None: no tunnels, or no report
    peer_site: str | None = None


@dataclass(frozen=True, slots=True)
class AddressView:
    address: Address | Network  # a network: the devices of a LAN that have no entry
    subnet: str
    port: str
    mac: str | None  # None: neither configured nor learned


class ActiveBy(StrEnum):
    """The origin of the active uplink."""

    PEOPLE = "people"
    POLICIES = "policies"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class ClassView:
    """A named class of a terminal's traffic."""

    name: str
    mode: Mode
    mode_overridden: bool
    acting: Mode  # in force; never auto


@dataclass(frozen=True, slots=True)
class PassedView:
    """Packets of one class of a terminal's traffic, in one direction."""

    traffic: str  # a named class, protocols, "everything" or "everything else"
    sent: bool  # by the terminal; otherwise to it
    copied: int  # over several uplinks
    alone: int  # over one uplink


@dataclass(frozen=True, slots=True)
class TrafficView:
    """Recent traffic, from the switches' counters."""

    seconds: float  # up to the last reading
    passed: tuple[PassedView, ...]


@dataclass(frozen=True, slots=True)
class HealthView:
    """The health of an uplink for one terminal."""

    uplink: str
    health: UplinkHealth
    reason: str
    since: float
    addresses: tuple[str, ...]  # none: no path of their own there


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """The result of a decision at an agent, or at the gateway if `agent` is None."""

    agent: str | None
    done: bool | None  # None: no answer yet
    answer: str
    connections: int
    took_us: int
    orders: int  # later ones move connections opened since


@dataclass(frozen=True, slots=True)
class DecisionView:
    number: int
    at: float
    by: By
    uplink: str
    left: str
    reason: str
    hard: bool  # in-flight data is retransmitted
    copies: bool | None  # by mode auto; None: about the uplink
    outcomes: tuple[OutcomeView, ...]  # gateway first
    unmoved: str | None  # why no agent got an order
    reporters: tuple[str, ...] = ()  # empty: a person, a port or a timer caused it


@dataclass(frozen=True, slots=True)
class TerminalView:
    name: str
    gateway: str
    mode: Mode  # of traffic outside `classes`
    acting: Mode  # in force; never auto
    active_uplink: str
    default_uplink: str
    access_point: str | None
    active_by: ActiveBy
    mode_overridden: bool  # it precedes the file
    addresses: tuple[AddressView, ...]
    sent: PacketCounters | None
    received: PacketCounters | None
    classes: tuple[ClassView, ...] = ()
    traffic: TrafficView = TrafficView(0.0, ())
    paths: tuple[HealthView, ...] = ()
    last_decision: DecisionView | None = None


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device with an address from a gateway's host."""

    name: str  # as it calls itself; empty: unknown
    address: str
    mac: str
    gateway: str
    terminal: str  # the entry of gateway.yaml that sets its mode


@dataclass(frozen=True, slots=True)
class MissingView:
    capability: str
    reason: str


@dataclass(frozen=True, slots=True)
class AgentView:
    name: str
    role: Role
    state: AgentState
    since: float  # or end
    peer: str
    version: str
    path_manager: PathManager
    reported_at: float | None  # None: no report yet
    reports: int
    terminals: tuple[str, ...]  # whose connections it reports
    missing: tuple[MissingView, ...]
    cpu_us: int | None  # since the agent started
    rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class ArmedFailoverView:
    agent: str
    watched: str  # uplinks
    fallback: str
    no_progress_ms: int
    until: float
    refused: str | None  # the agent's reason
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
    since: float | None  # None: no decision
    copied: tuple[str, ...] = ()  # in mode bicast: named classes and protocols, or "everything"
    whole: str | None = None  # why not everything is copied; None: everything is, or the file limits it
    traffic: TrafficView = TrafficView(0.0, ())


@dataclass(frozen=True, slots=True)
class SubflowsView:
    """The subflows of a terminal's MPTCP connections over one uplink, as one agent reports them."""

    agent: str
    connections: int  # over all uplinks
    uplink: str
    active: int
    backup: int  # flagged by either end
    srtt_us: int | None  # of the slowest


@dataclass(frozen=True, slots=True)
class CourseView:
    """The uplink of one terminal, the reason, and the alternatives."""

    terminal: str
    copying: CopyingView
    active_uplink: str
    active_by: ActiveBy
    movers: tuple[str, ...]  # agents
    unmoved: str | None  # why there is none
    own_end: EndView
    other_end: EndView
    uplinks: tuple[HealthView, ...]
    armed_failovers: tuple[ArmedFailoverView, ...]
    decisions: tuple[DecisionView, ...]  # newest first
    subflows: tuple[SubflowsView, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchedTerminal:
    """The part of a TerminalView from which events are made."""

    name: str
    gateway: str
    paths: tuple[HealthView, ...]
    last_decision: DecisionView | None


@dataclass(frozen=True, slots=True)
class Watched:
    """The part of a snapshot from which events are made. The core makes one each second, between two reports."""

    gateways: tuple[GatewayView, ...]
    terminals: tuple[WatchedTerminal, ...]
    agents: tuple[AgentView, ...]
    relays: tuple[RelayView, ...]
    config_failures: int
    config_error: str | None
    config_loads: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    version: str
    gateways: tuple[GatewayView, ...]
    terminals: tuple[TerminalView, ...]
    agents: tuple[AgentView, ...]
    config_path: str
    config_loaded_at: float
    config_failures: int
    config_error: str | None  # the previous file stays in force
    access_points: tuple[AccessPointView, ...]
    paths: tuple[PathView, ...]
    relays: tuple[RelayView, ...] = ()
    interceptions: tuple[InterceptionView, ...] = ()
    devices: tuple[DeviceView, ...] = ()  # of the LANs that gateways' hosts serve
    config_loads: int = 0  # since the start
    openflow_unproven: str | None = None  # why switches cannot tell this controller from another local process
