# SPDX-License-Identifier: Apache-2.0
"""The snapshot: all that can be read of the controller at one moment. The core replaces it whole.

`sent` and `received` of a terminal are its own: what it sent is counted by the flows that took its packets, what it
received by the groups that deliver to it. Times are Unix seconds. Counters are those of the switch's last reading.
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
from controller.program.program import Counters, GroupKind, PortCounters
from controller.protocol.reports import PathCopies, PathManager, Role, TunnelEnd
from controller.switches.switch import GatewayState


class AgentState(StrEnum):
    HERE = "here"
    SILENT = "silent"  # three periods without a word: its last report counts no more
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class NextHopView:
    address: Address
    mac: str | None  # None: neither written nor learned yet


@dataclass(frozen=True, slots=True)
class TunnelView:
    up: bool
    reason: str | None  # why not
    end: TunnelEnd | None  # None: nobody tells


@dataclass(frozen=True, slots=True)
class BudgetView:
    """What copies have used of an uplink, and what they may; None: no bound."""

    copied_bytes: int  # today
    budget_bytes_per_day: int | None
    share: float  # of all that was sent in the last minutes
    max_share: float | None
    barred: str | None  # why there are none now


@dataclass(frozen=True, slots=True)
class UplinkView:
    name: str
    port: str
    number: int | None  # None: the bridge has no such port
    up: bool
    addresses: tuple[Interface, ...]
    next_hops: tuple[NextHopView, ...]
    counters: PortCounters | None
    tunnel: TunnelView | None  # None: it is none
    budget: BudgetView | None = None  # None: it has none, or it is counted at the other end


@dataclass(frozen=True, slots=True)
class BucketView:
    uplink: str | None  # None: it leaves towards a terminal
    counters: Counters | None


@dataclass(frozen=True, slots=True)
class GroupView:
    id: int
    label: str
    kind: GroupKind
    buckets: tuple[BucketView, ...]


@dataclass(frozen=True, slots=True)
class SilentView:
    """An uplink by which no copies come in, while others bring them: a latent error."""

    uplink: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnidentifiedView:
    """An uplink of which more than 1 % of the packets cannot be told from others: every copy of these passes."""

    uplink: str
    reason: str


@dataclass(frozen=True, slots=True)
class CopiesView:
    """Of a site whose uplinks end at another site of ours."""

    copied: tuple[str, ...]  # the protocols that leave by every uplink in mode bicast, or "all"
    eliminated: bool  # of several copies of a packet that come in the first passes, and no other
    reason: str | None  # why not
    window_us: int | None  # within which a copy comes; None: nobody says
    paths: tuple[PathCopies, ...]  # since the order was given; empty: nobody says
    silent: tuple[SilentView, ...]
    unidentified: tuple[UnidentifiedView, ...]


@dataclass(frozen=True, slots=True)
class FittingView:
    """What senders inside are told of the tunnels' room."""

    largest_bytes: int | None  # of an IP packet; None: not known
    missing: tuple[tuple[str, str], ...]  # ports where they are not told, and why


@dataclass(frozen=True, slots=True)
class GatewayView:
    name: str
    dpid: str  # 16 hex digits, as in gateway.yaml
    bridge: str
    state: GatewayState
    since: float  # of the state
    peer: str | None  # None: not connected
    rival: str | None  # another peer with this dpid, which is sent away as long as the first one answers
    last_error: str | None
    reconciles: int
    changes_sent: int
    last_changes: int  # sent by the last reconcile
    refusals: int
    conflicts: tuple[str, ...]  # foreign flows that stand where ours would
    uplinks: tuple[UplinkView, ...]
    groups: tuple[GroupView, ...]
    copies: CopiesView | None  # None: no site of ours is at the other end of its uplinks
    fitting: FittingView | None  # None: no tunnels, or nobody tells


@dataclass(frozen=True, slots=True)
class AddressView:
    address: Address
    subnet: str
    port: str
    mac: str | None  # None: neither written nor learned yet


class ActiveBy(StrEnum):
    """Who has chosen the active uplink."""

    PEOPLE = "people"
    POLICIES = "policies"
    DEFAULT = "default"  # nobody: it is the one of the configuration


@dataclass(frozen=True, slots=True)
class ClassView:
    """A class of a terminal's traffic that has a name."""

    name: str
    mode: Mode
    mode_overridden: bool  # somebody set it, as a terminal's
    acting: Mode  # what `mode` comes to just now: never auto


@dataclass(frozen=True, slots=True)
class PassedView:
    """Packets of one class of a terminal's traffic, in one direction."""

    traffic: str  # a class that has a name, or protocols, or "everything", or "everything else"
    sent: bool  # by the terminal; else to it
    copied: int  # by several uplinks
    alone: int  # by one


@dataclass(frozen=True, slots=True)
class TrafficView:
    """What passed of late, by the switches' counters."""

    seconds: float  # so long, up to the last reading
    passed: tuple[PassedView, ...]


@dataclass(frozen=True, slots=True)
class TerminalView:
    name: str
    gateway: str
    mode: Mode  # of what is in none of `classes`
    acting: Mode  # what that comes to just now: never auto
    active_uplink: str
    default_uplink: str
    access_point: str | None
    active_by: ActiveBy
    mode_overridden: bool  # somebody set its mode: that holds, whatever the file says, as active_by "people" does
    addresses: tuple[AddressView, ...]
    sent: Counters | None
    received: Counters | None
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
    since: float  # of the session, or of its end
    peer: str
    version: str
    path_manager: PathManager
    reported_at: float | None  # the last report; None: there was none
    reports: int
    terminals: tuple[str, ...]  # of which it tells
    missing: tuple[MissingView, ...]
    cpu_us: int | None  # since the agent was started
    rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class HealthView:
    """An uplink as one terminal fares on it."""

    uplink: str
    health: UplinkHealth
    reason: str
    since: float
    addresses: tuple[str, ...]  # the terminal's there; none: its connections have no path of their own there


@dataclass(frozen=True, slots=True)
class HandView:
    """What an agent, or the gateway where `agent` is None, made of a decision."""

    agent: str | None
    done: bool | None  # None: it has not answered yet
    said: str
    connections: int
    took_us: int
    orders: int  # the later ones took new connections along


@dataclass(frozen=True, slots=True)
class DecisionView:
    number: int
    at: float
    by: By
    uplink: str
    left: str
    reason: str
    hard: bool  # what was in flight on the path that was left is sent again
    copies: bool | None  # in mode auto they begin, or end; None: it is of the uplink
    hands: tuple[HandView, ...]  # the gateway's first
    unmoved: str | None  # why no agent was ordered
    reporters: tuple[str, ...] = ()  # the agents whose reports it follows from; none: people, ports and time


@dataclass(frozen=True, slots=True)
class ArmedFailoverView:
    agent: str
    watched: str  # uplinks
    fallback: str
    no_progress_ms: int
    until: float
    refused: str | None  # why the agent did not arm it
    away: str | None  # why no word reaches the agent: it keeps what it has until then, or has ended with it


@dataclass(frozen=True, slots=True)
class EndView:
    """Who tells of a terminal's connections at one end of them."""

    agents: tuple[str, ...]
    nobody: str | None  # why nobody does


@dataclass(frozen=True, slots=True)
class CopyingView:
    """Whether a terminal's packets are copied just now, and why: in mode auto that is decided."""

    mode: Mode
    acting: Mode  # never auto
    reason: str
    since: float | None  # it is decided so; None: it is not decided, or was not yet
    copied: tuple[
        str, ...
    ] = ()  # what is copied in mode bicast: classes that have names, and protocols, or "everything"
    whole: str | None = None  # why not everything is; None: everything is, or what is was written
    traffic: TrafficView = TrafficView(0.0, ())


@dataclass(frozen=True, slots=True)
class CourseView:
    """Where one terminal is, why, and what it could do."""

    terminal: str
    copying: CopyingView
    active_uplink: str
    active_by: ActiveBy
    movers: tuple[str, ...]  # the agents that move its connections
    unmoved: str | None  # why there is none
    own_end: EndView
    other_end: EndView
    uplinks: tuple[HealthView, ...]
    armed_failovers: tuple[ArmedFailoverView, ...]
    decisions: tuple[DecisionView, ...]  # the newest first


@dataclass(frozen=True, slots=True)
class Snapshot:
    gateways: tuple[GatewayView, ...]
    terminals: tuple[TerminalView, ...]
    agents: tuple[AgentView, ...]
    config_path: str
    config_loaded_at: float
    config_failures: int
    config_error: str | None  # why the file as it is now was refused; the one loaded before it is in force
    access_points: tuple[AccessPointView, ...]
    paths: tuple[PathView, ...]
    relays: tuple[RelayView, ...] = ()
    taking: tuple[InterceptionView, ...] = ()
    openflow_unproven: str | None = None  # why switches cannot tell this controller from another local process
