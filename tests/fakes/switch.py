# SPDX-License-Identifier: Apache-2.0
"""A switch that executes its flows and groups, and refuses what Open vSwitch refuses.

Tests ask it what a network engineer would ask a real one: "does this packet leave port 2 with that MAC?" pipeline.py
has the path of a packet, admission.py the refusals, this module the switch's state, messages and counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Self, TypeVar

from controller.model.observed import Port
from controller.program.diff import (
    AddFlow,
    AddGroup,
    AddMeter,
    Change,
    DeleteFlow,
    DeleteGroup,
    DeleteMeter,
    ModifyFlow,
    ModifyGroup,
    ModifyMeter,
    diff,
)
from controller.program.program import (
    GROUP_IDS,
    METER_IDS,
    Bucket,
    Fields,
    Flow,
    FlowKey,
    Group,
    GroupKind,
    Installed,
    Meter,
    PacketCounters,
    PortCounters,
    Program,
    ToGroup,
)
from controller.protocol.switch_messages import (
    Apply,
    Count,
    PortsCounted,
    Read,
    SwitchApplied,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)
from tests.fakes.admission import TableRefusal, check_flow, check_group, check_place
from tests.fakes.fields import IllDefined, bits
from tests.fakes.packet import Packet
from tests.fakes.pipeline import PacketOutcome, PacketPath

NOTHING = PacketCounters(0, 0)
Key = TypeVar("Key")


class FakeSwitch:
    def __init__(self, ports: Mapping[str, Port], dpid: int = 1) -> None:
        self.ports = dict(ports)
        self.dpid = dpid
        self.flows: dict[FlowKey, Flow] = {}
        self.groups: dict[int, Group] = {}
        self.meters: dict[int, Meter] = {}
        self.exhausted: set[int] = set()  # meters through which nothing passes now
        self.changes: Counter[type[Change]] = Counter()  # by kind, without refused ones
        self._foreign: set[FlowKey] = set()
        self._flow_counters: dict[FlowKey, PacketCounters] = {}
        self._bucket_counters: dict[tuple[int, int], PacketCounters] = {}
        self._meter_passed: dict[int, int] = {}  # bytes
        self._meter_packets: dict[int, int] = {}
        self._received: dict[int, PacketCounters] = {}
        self._sent: dict[int, PacketCounters] = {}

    @classmethod
    def with_ports(cls, *names: str) -> FakeSwitch:
        """Return a switch with ports 1, 2, ... of these names, all up."""
        return cls({name: Port(at, f"02:00:00:00:00:{at:02x}", up=True) for at, name in enumerate(names, start=1)})

    # Messages from a controller

    def load(self, program: Program) -> Self:
        """Change the installed program into this one."""
        for change in diff(self.installed().program, program):
            self.change(change)
        return self

    def apply(self, order: Apply) -> tuple[SwitchRefused | SwitchApplied, ...]:
        """Apply changes in order. A refusal does not stop later ones: without bundles, OpenFlow promises no more."""
        refusals = []
        for change in order.changes:
            try:
                self.change(change)
            except TableRefusal as refused:
                refusals.append(SwitchRefused(order.session, order.ticket, change, str(refused)))
        return (*refusals, SwitchApplied(order.session, order.ticket))

    def change(self, change: Change) -> None:
        match change:
            case AddFlow(flow):
                self._put(flow)
                self._foreign.discard(flow.key)
            case ModifyFlow(flow):
                check_flow(flow)
                if flow.key in self.flows.keys() - self._foreign:
                    self._put(flow)
            case DeleteFlow(flow):
                self._remove_flows([flow.key] if flow.key in self.flows.keys() - self._foreign else [])
            case AddGroup(group):
                if group.group_id in self.groups:
                    raise TableRefusal("OFPGMFC_GROUP_EXISTS", f"group {group.group_id:#x} is there already")
                self._put_group(group)
            case ModifyGroup(group):
                if group.group_id not in self.groups:
                    raise TableRefusal("OFPGMFC_UNKNOWN_GROUP", f"there is no group {group.group_id:#x} to modify")
                self._put_group(group)
            case DeleteGroup(group_id):
                self.groups.pop(group_id, None)
                self._remove_flows([key for key, flow in self.flows.items() if ToGroup(group_id) in flow.actions])
            case AddMeter(meter):
                if meter.meter_id in self.meters:
                    raise TableRefusal("OFPMMFC_METER_EXISTS", f"meter {meter.meter_id:#x} is there already")
                self.meters[meter.meter_id] = meter
            case ModifyMeter(meter):
                if meter.meter_id not in self.meters:
                    raise TableRefusal("OFPMMFC_UNKNOWN_METER", f"there is no meter {meter.meter_id:#x} to modify")
                self.meters[meter.meter_id] = meter
                self._meter_passed.pop(meter.meter_id, None)
                self._meter_packets.pop(meter.meter_id, None)
            case DeleteMeter(meter_id):
                self.meters.pop(meter_id, None)
                self.exhausted.discard(meter_id)
                self._remove_flows([key for key, flow in self.flows.items() if flow.meter == meter_id])
        self.changes[type(change)] += 1

    def add_foreign(self, flow: Flow) -> None:
        """Add a flow with a foreign cookie. Foreign groups and meters are those outside our reserved ids."""
        self._put(flow)
        self._foreign.add(flow.key)

    # Messages to a controller

    def opened(self, session: int) -> SwitchOpened:
        return SwitchOpened(session, self.dpid, "fake", dict(self.ports))

    def read(self, order: Read) -> SwitchRead:
        return SwitchRead(order.session, order.ticket, self.installed())

    def count(self, order: Count) -> PortsCounted:
        return PortsCounted(order.session, self.installed().port_counters)

    def installed(self) -> Installed:
        """Return its state like edges/openflow/speaker.py: our flows by cookie, groups and meters by reserved ids."""
        ours = {key: flow for key, flow in self.flows.items() if key not in self._foreign}
        groups = {group_id: group for group_id, group in self.groups.items() if group_id in GROUP_IDS}
        return Installed(
            program=Program(
                ours, groups, {meter_id: meter for meter_id, meter in self.meters.items() if meter_id in METER_IDS}
            ),
            foreign_flows=frozenset(self._foreign),
            flow_counters={key: self._flow_counters.get(key, NOTHING) for key in ours},
            bucket_counters={
                group_id: tuple(self._bucket_counters.get((group_id, at), NOTHING) for at in range(len(group.buckets)))
                for group_id, group in groups.items()
            },
            port_counters={
                port.number: PortCounters(
                    self._received.get(port.number, NOTHING), self._sent.get(port.number, NOTHING), 0, 0
                )
                for port in self.ports.values()
            },
            meter_passed={meter_id: self._meter_passed.get(meter_id, 0) for meter_id in self.meters},
            meter_packets={meter_id: self._meter_packets.get(meter_id, 0) for meter_id in self.meters},
        )

    # Links

    def down(self, name: str) -> None:
        self.ports[name] = replace(self.ports[name], up=False)

    def up(self, name: str) -> None:
        self.ports[name] = replace(self.ports[name], up=True)

    def live(self, number: int) -> bool:
        return any(port.up for port in self.ports.values() if port.number == number)

    # Packets

    def send(self, packet: Packet, in_port: int) -> PacketOutcome:
        """Return the outcome of one packet that arrives at a port."""
        if not self.live(in_port):
            raise ValueError(f"no packet can arrive at port {in_port}: it is down or absent; ports are {self.ports}")
        _count(self._received, in_port, packet)
        way = PacketPath(self, in_port)
        way.through_table(0, packet)
        for sent in way.sent:
            _count(self._sent, sent.port, sent.packet)
        return PacketOutcome(tuple(way.sent), tuple(way.punted))

    def taken(self, table: int, packet: Packet, in_port: int) -> Flow | None:
        """Return the flow that matches this packet in this table."""
        best = self.best(table, packet, in_port)
        if not best:
            return None
        taken = best[0] if len(best) == 1 else self.any_of(best, packet)
        _count(self._flow_counters, taken.key, packet)
        return taken

    def best(self, table: int, packet: Packet, in_port: int) -> list[Flow]:
        """Return the flows of the highest priority that match this packet in this table."""
        headers = packet.headers | {"in_port": in_port}
        found = [flow for flow in self.flows.values() if flow.table == table and _matches(flow.match, headers)]
        return [flow for flow in found if flow.priority == max(flow.priority for flow in found)]

    def any_of(self, flows: list[Flow], packet: Packet) -> Flow:
        """Choose between flows of one priority: OpenFlow leaves it open, so no program may depend on it."""
        raise IllDefined(f"{len(flows)} flows of one priority match {packet}: {flows}")

    def metered(self, meter_id: int, packet: Packet) -> bool:
        """Count a packet at a meter. Return whether it passes."""
        if meter_id not in self.exhausted:
            self._meter_passed[meter_id] = self._meter_passed.get(meter_id, 0) + packet.size
            self._meter_packets[meter_id] = self._meter_packets.get(meter_id, 0) + 1
        return meter_id not in self.exhausted

    def chosen(self, group_id: int, packet: Packet) -> tuple[Bucket, ...]:
        """Return the buckets of a group that handle this packet."""
        if group_id not in self.groups:
            raise IllDefined(f"a bucket leads to group {group_id:#x}, which is not there")
        group = self.groups[group_id]
        buckets = list(enumerate(group.buckets))
        if group.kind is GroupKind.FAST_FAILOVER:
            buckets = [(at, bucket) for at, bucket in buckets if self.live(bucket.watch_port or 0)][:1]
        for at, _ in buckets:
            _count(self._bucket_counters, (group_id, at), packet)
        return tuple(bucket for _, bucket in buckets)

    # State

    def _put(self, flow: Flow) -> None:
        check_flow(flow)
        check_place(flow, self.groups, self.meters)
        self.flows[flow.key] = flow

    def _remove_flows(self, keys: Iterable[FlowKey]) -> None:
        for key in keys:
            del self.flows[key]
            self._flow_counters.pop(key, None)
            self._foreign.discard(key)

    def _put_group(self, group: Group) -> None:
        """Store a group and reset its counters, like Open vSwitch does. OpenFlow 1.3.5 leaves it open."""
        check_group(group)
        self.groups[group.group_id] = group
        for at in [key for key in self._bucket_counters if key[0] == group.group_id]:
            del self._bucket_counters[at]


def _matches(match: Fields, headers: Mapping[str, int | str]) -> bool:
    for name, wanted in match:
        if name not in headers:
            return False
        value, mask = bits(name, wanted)
        if bits(name, headers[name])[0] & mask != value:
            return False
    return True


def _count(counters: dict[Key, PacketCounters], key: Key, packet: Packet) -> None:
    before = counters.get(key, NOTHING)
    counters[key] = PacketCounters(before.packets + 1, before.bytes + packet.size)
