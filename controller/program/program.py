# SPDX-License-Identifier: Apache-2.0
"""The program of a switch as plain values.

Field names are OpenFlow's (`eth_dst`, `ipv4_src`, ...). Values have one canonical form, so that a program read back
compares equal to the one that was sent:

    numbers            int
    MAC addresses      "08:00:27:81:6b:cf"
    addresses          "192.168.110.3", "fd00:110::3", "::ffff:c0a8:6e03"
    masked values      "224.0.0.0/4" (addresses), "01:00:00:00:00:00/01:00:00:00:00:00" (MACs)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

COOKIE = 0x62_69_63_61_73_74_00_00  # "bicast"
COOKIE_MASK = 0xFF_FF_FF_FF_FF_FF_00_00  # the low 16 bits are free
GROUP_IDS = range(0x62_00_00_00, 0x63_00_00_00)  # groups have no cookie
METER_IDS = range(0x6200, 0x6300)  # meters have none either

Value = int | str
Fields = tuple[tuple[str, Value], ...]


def fields(**values: Value) -> Fields:
    return tuple(sorted(values.items()))


def written(value: IPv4Address | IPv4Network | IPv6Address | IPv6Network) -> str:
    """Return the canonical form of an address or a network.

    A network of one address is the address, as in switches. Python versions differ in writing IPv6 addresses with dots.
    """
    if isinstance(value, IPv4Network | IPv6Network) and value.num_addresses == 1:
        value = value.network_address
    address, slash, length = str(value).partition("/")
    front, colon, last = address.rpartition(":")
    if colon and "." in last:
        ipv4 = int(IPv4Address(last))
        address = f"{front}:{ipv4 >> 16:x}:{ipv4 & 0xFFFF:x}"
    return f"{address}{slash}{length}"


@dataclass(frozen=True, slots=True)
class SetField:
    field: str
    value: Value


@dataclass(frozen=True, slots=True)
class Move:
    """Copy a whole field into another of the same width."""

    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class DecTtl:
    """Decrement TTL or hop limit. The datapath drops a packet at zero."""


@dataclass(frozen=True, slots=True)
class Output:
    port: int


@dataclass(frozen=True, slots=True)
class OutputInPort:
    """Output to the ingress port, which OpenFlow allows only as IN_PORT."""


@dataclass(frozen=True, slots=True)
class ToController:
    """Send the whole packet to the controller."""


@dataclass(frozen=True, slots=True)
class ToGroup:
    group_id: int


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Continue in another table (Open vSwitch extension): buckets have no goto."""

    table: int


Action = SetField | Move | DecTtl | Output | OutputInPort | ToController | ToGroup | Resubmit


@dataclass(frozen=True, slots=True)
class Flow:
    """One line of a table. `goto` continues in a later one."""

    table: int
    priority: int
    match: Fields
    actions: tuple[Action, ...] = ()
    goto: int | None = None
    meter: int | None = None

    @property
    def key(self) -> FlowKey:
        return (self.table, self.priority, self.match)


FlowKey = tuple[int, int, Fields]


class GroupKind(StrEnum):
    ALL = "all"
    FAST_FAILOVER = "fast_failover"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket. `watch_port` is for FAST_FAILOVER only: the first bucket with a live port applies."""

    actions: tuple[Action, ...]
    watch_port: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    group_id: int
    kind: GroupKind
    buckets: tuple[Bucket, ...]
    label: str = field(default="", compare=False)  # for people; a switch does not keep it


@dataclass(frozen=True, slots=True)
class Meter:
    """Drops packets above `rate_kbps` (1000 bit/s) after a burst of `burst_kbits`. Ethernet headers count."""

    meter_id: int
    rate_kbps: int
    burst_kbits: int


@dataclass(frozen=True, slots=True)
class Program:
    """This controller's flows, groups and meters on one switch."""

    flows: Mapping[FlowKey, Flow] = field(default_factory=dict)
    groups: Mapping[int, Group] = field(default_factory=dict)
    meters: Mapping[int, Meter] = field(default_factory=dict)

    @classmethod
    def of(cls, flows: Iterable[Flow] = (), groups: Iterable[Group] = (), meters: Iterable[Meter] = ()) -> Program:
        return cls(
            {flow.key: flow for flow in flows},
            {group.group_id: group for group in groups},
            {meter.meter_id: meter for meter in meters},
        )


EMPTY = Program()


@dataclass(frozen=True, slots=True)
class PacketCounters:
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Installed:
    """A switch as read: our program, foreign flows where ours may go, and counters."""

    program: Program
    foreign_flows: frozenset[FlowKey] = frozenset()
    flow_counters: Mapping[FlowKey, PacketCounters] = field(default_factory=dict)
    bucket_counters: Mapping[int, tuple[PacketCounters, ...]] = field(default_factory=dict)
    port_counters: Mapping[int, PortCounters] = field(default_factory=dict)
    meter_passed: Mapping[int, int] = field(default_factory=dict)  # bytes since the meter's last modification
    meter_packets: Mapping[int, int] = field(default_factory=dict)  # the same in packets


@dataclass(frozen=True, slots=True)
class PortCounters:
    received: PacketCounters
    sent: PacketCounters
    receive_drops: int
    send_drops: int
