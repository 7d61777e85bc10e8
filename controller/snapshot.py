"""What can be read of the controller at one moment. The core replaces it whole; readers keep what they were given.

`sent` and `received` of a terminal are its own: what it sent is counted by the flows that took its packets, what it
received by the groups that deliver to it. Times are Unix seconds. Counters are those of the switch's last reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.events import Counters, PortCounters
from controller.model import Address, Interface, Mode
from controller.program import GroupKind


class GatewayState(StrEnum):
    """How far a switch is on its way to what is wanted of it."""

    ABSENT = "absent"  # not connected
    READING = "reading"  # connected, and asked what is installed
    INSTALLING = "installing"  # changes are sent, their barrier is not yet answered
    STEADY = "steady"  # what is installed is what is wanted
    REFUSED = "refused"  # the switch refused something: `last_error` names it


@dataclass(frozen=True, slots=True)
class NextHopView:
    address: Address
    mac: str | None  # None: neither written nor learned yet


@dataclass(frozen=True, slots=True)
class UplinkView:
    name: str
    port: str
    number: int | None  # None: the bridge has no such port
    up: bool
    addresses: tuple[Interface, ...]
    next_hops: tuple[NextHopView, ...]
    counters: PortCounters | None


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


@dataclass(frozen=True, slots=True)
class AddressView:
    address: Address
    subnet: str
    port: str
    mac: str | None  # None: neither written nor learned yet


@dataclass(frozen=True, slots=True)
class TerminalView:
    name: str
    gateway: str
    mode: Mode
    active_uplink: str
    default_uplink: str
    access_point: str | None
    wished: bool  # somebody set its mode, its active uplink or both: that holds, whatever the file says
    addresses: tuple[AddressView, ...]
    sent: Counters | None
    received: Counters | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    gateways: tuple[GatewayView, ...]
    terminals: tuple[TerminalView, ...]
    config_path: str
    config_loaded_at: float
    config_failures: int
    config_error: str | None  # why the file as it is now was refused; the one loaded before it is in force
