# SPDX-License-Identifier: Apache-2.0
"""The path of one packet through a switch: OpenFlow 1.3's tables, actions and groups, executed.

    packet ─► table 0 ─► the matching flow of highest priority
                           meter        over its rate: the packet ends here
                           actions      one after the other, each sees what the ones before it did
                             group      ALL: every bucket, each on its own copy, the packet goes on unchanged
                                        FAST_FAILOVER: the first bucket whose watch_port is live
                             resubmit   a table on the way, then on with what is behind it
                           goto         the packet as the actions left it, in a later table

**A bucket is an action set, not an action list** (1.3.5, sections 5.6.1 and 5.10): whatever order it is written in,
the TTL is decremented first, then fields are set (in the order written), and last there is ONE way out: a group or an
output. Open vSwitch accepts a bucket with two outputs and executes the last; the fake raises IllDefined.

A packet ends when its TTL does: DecTtl in a flow ends the rest of the pipeline, in a bucket only that bucket's copy.
tests/fakes/test_switch_like_ovs.py compares all of this with a real Open vSwitch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from controller.program.program import (
    Action,
    Bucket,
    DecTtl,
    Flow,
    Move,
    Output,
    OutputInPort,
    Resubmit,
    SetField,
    ToController,
    ToGroup,
)
from tests.fakes.fields import IllDefined
from tests.fakes.packet import Packet


@dataclass(frozen=True, slots=True)
class SentPacket:
    """A packet that left through the port of this number."""

    port: int
    packet: Packet


@dataclass(frozen=True, slots=True)
class PacketOutcome:
    """The outcome of one packet: the packets sent, and those shown to the controller."""

    sent: tuple[SentPacket, ...] = ()
    punted: tuple[Packet, ...] = ()


class Tables(Protocol):
    """The tables, meters and groups of a switch, as a packet meets them."""

    def live(self, number: int) -> bool: ...
    def taken(self, table: int, packet: Packet, in_port: int) -> Flow | None: ...
    def metered(self, meter_id: int, packet: Packet) -> bool: ...
    def chosen(self, group_id: int, packet: Packet) -> tuple[Bucket, ...]: ...


class PacketPath:
    """The path of one packet from its input port."""

    def __init__(self, switch: Tables, in_port: int) -> None:
        self.switch = switch
        self.in_port = in_port
        self.sent: list[SentPacket] = []
        self.punted: list[Packet] = []
        self.inside: list[int] = []  # groups that the packet is in now
        self.ended = False  # by a meter: earlier buckets have sent, later buckets send nothing

    def through_table(self, table: int, packet: Packet) -> None:
        flow = self.switch.taken(table, packet, self.in_port)
        if flow is None:
            return
        if flow.meter is not None and not self.switch.metered(flow.meter, packet):
            self.ended = True
            return
        left = self.through_actions(flow.actions, packet)
        if left is not None and flow.goto is not None:
            self.through_table(flow.goto, left)

    def through_actions(self, actions: Iterable[Action], packet: Packet) -> Packet | None:
        """Return the packet after the actions, or None if its TTL has ended."""
        for action in actions:
            match action:
                case SetField(name, value):
                    packet = packet.with_field(name, value)
                case Move(source, destination):
                    packet = packet.with_field(destination, packet.get(source))
                case DecTtl():
                    if packet.nw_ttl is None:
                        raise IllDefined(f"DecTtl on what is not IP: {packet}")
                    if packet.nw_ttl <= 1:
                        return None
                    packet = replace(packet, nw_ttl=packet.nw_ttl - 1)
                case Output(port):
                    if port != self.in_port:
                        self.out(port, packet)
                case OutputInPort():
                    self.out(self.in_port, packet)
                case ToController():
                    self.punted.append(packet)
                case ToGroup(group_id):
                    self.through_group(group_id, packet)
                case Resubmit(table):
                    self.through_table(table, packet)
        return packet

    def through_group(self, group_id: int, packet: Packet) -> None:
        if group_id in self.inside:
            raise IllDefined(f"group {group_id:#x} leads to itself: {[f'{each:#x}' for each in self.inside]}")
        self.inside.append(group_id)
        for bucket in self.switch.chosen(group_id, packet):
            self.through_actions(action_set(bucket), packet)
        self.inside.pop()

    def out(self, port: int, packet: Packet) -> None:
        if self.switch.live(port) and not self.ended:
            self.sent.append(SentPacket(port, packet))


def action_set(bucket: Bucket) -> list[Action]:
    """Return a bucket's actions in the order of their execution, not as written (1.3.5, section 5.10)."""

    def rank(action: Action) -> int:
        match action:
            case DecTtl():
                return 0
            case SetField() | Move():
                return 1
            case ToGroup() | Output() | OutputInPort() | ToController() | Resubmit():
                return 2

    ranks = [rank(action) for action in bucket.actions]
    if ranks.count(0) > 1 or ranks.count(2) > 1:
        raise IllDefined(f"a bucket is an action set: one DecTtl and one way out at most, not {bucket.actions}")
    return sorted(bucket.actions, key=rank)
