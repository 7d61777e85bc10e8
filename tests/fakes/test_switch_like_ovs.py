# SPDX-License-Identifier: Apache-2.0
"""The fake switch and a real Open vSwitch agree on output ports, headers and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

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
)
from controller.program.program import (
    Action,
    Bucket,
    DecTtl,
    Flow,
    Group,
    GroupKind,
    Meter,
    Move,
    Output,
    OutputInPort,
    Program,
    Resubmit,
    SetField,
    ToController,
    ToGroup,
    Value,
    fields,
)
from tests.fakes.admission import TableRefusal
from tests.fakes.fields import FIELDS, IP, satisfied
from tests.fakes.packet import Packet, advertise, arp_reply, arp_request, echo, sctp, solicit, tcp, udp
from tests.fakes.real_switch import RealSwitch
from tests.fakes.switch import FakeSwitch

LIVE, DOWN, ABSENT = (1, 2, 4), (3,), 9
LAST_TABLE = 4
METER = Meter(1, 1000, 100)
MACS = ("02:00:00:00:00:0a", "02:00:00:00:00:0b")
VALUES: Mapping[str, tuple[Value, ...]] = {
    "eth_src": MACS,
    "eth_dst": MACS,
    "nw_ttl": (1, 64),
    "ipv4_src": ("10.0.0.1", "10.0.0.2"),
    "ipv4_dst": ("10.0.0.1", "11.0.0.2"),
    "ipv6_src": ("fd00::1", "fd00::2"),
    "ipv6_dst": ("fd00::1", "fd01::2"),
    "tcp_src": (80, 81),
    "tcp_dst": (80, 81),
    "udp_src": (80, 81),
    "udp_dst": (80, 81),
    "sctp_src": (80, 81),
    "sctp_dst": (80, 81),
    "ip_dscp": (0, 46),
    "icmpv4_type": (0, 8),
    "ipv6_nd_target": ("fd00::1", "fd00::2"),
    "arp_op": (1, 2),
    "arp_spa": ("10.0.0.1", "10.0.0.2"),
    "arp_tpa": ("10.0.0.1", "10.0.0.2"),
    "arp_sha": MACS,
    "arp_tha": MACS,
}
MOVES = (
    ("eth_src", "eth_dst"),
    ("ipv4_src", "ipv4_dst"),
    ("ipv6_src", "ipv6_dst"),
    ("arp_spa", "arp_tpa"),
    ("arp_sha", "arp_tha"),
    ("eth_src", "arp_tha"),
)
KINDS: tuple[Mapping[str, Value], ...] = (  # kinds of packets, by the headers that decide which fields exist
    {"eth_type": 0x0800},
    {"eth_type": 0x0800, "ip_proto": 6},
    {"eth_type": 0x0800, "ip_proto": 1},
    {"eth_type": 0x86DD},
    {"eth_type": 0x86DD, "ip_proto": 17},
    {"eth_type": 0x0800, "ip_proto": 17},
    {"eth_type": 0x0800, "ip_proto": 132},
    {"eth_type": 0x86DD, "ip_proto": 58, "icmpv6_type": 135},
    {"eth_type": 0x86DD, "ip_proto": 58, "icmpv6_type": 136},
    {"eth_type": 0x0806},
)
MASKED: Mapping[str, Value] = {
    "eth_dst": "02:00:00:00:00:00/ff:00:00:00:00:00",
    "ipv4_dst": "10.0.0.0/8",
    "ipv6_dst": "fd00::/16",
    "arp_tpa": "10.0.0.0/30",
    "tcp_dst": "0x50/0xfff0",
    "udp_dst": "0x50/0xfffe",
    "udp_src": "0x8000/0x8000",
    "sctp_dst": "0x50/0xfffe",
}
PACKETS: tuple[Packet, ...] = (
    *(tcp("10.0.0.1", "11.0.0.2", eth_src=MACS[0], ttl=ttl) for ttl in (0, 1, 2, 64)),
    *(tcp("fd00::2", "fd01::2", eth_dst=MACS[1], ttl=ttl) for ttl in (0, 1, 2, 64)),
    udp("10.0.0.2", "10.0.0.1", udp_dst=80),
    udp("fd00::1", "fd00::2", udp_dst=81),
    echo("10.0.0.1", "10.0.0.2"),
    echo("fd00::1", "fd00::2"),
    *(replace(udp("10.0.0.2", "10.0.0.1", udp_src=port, udp_dst=81), ip_dscp=46) for port in (80, 40000)),
    *(sctp("10.0.0.1", "10.0.0.2", sctp_dst=port) for port in (80, 81, 82)),
    replace(tcp("fd00::2", "fd01::2", tcp_dst=95), ip_dscp=46),
    arp_request("10.0.0.1", "10.0.0.2", eth_src=MACS[0]),
    arp_reply("10.0.0.2", "10.0.0.1"),
    solicit("fd00::1", "fd00::2", eth_src=MACS[1]),
    advertise("fd00::2", "fd00::1", eth_src=MACS[0]),
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSwitch]:
    with RealSwitch(tmp_path_factory.mktemp("ovs"), LIVE, DOWN) as switch:
        yield switch


def fake() -> FakeSwitch:
    return FakeSwitch({f"p{number}": Port(number, MACS[0], number in LIVE) for number in (*LIVE, *DOWN)})


PORTS = (*LIVE, *LIVE, *DOWN, ABSENT)


def rewrites(kind: Mapping[str, Value]) -> st.SearchStrategy[Action]:
    """Draw a change of a header that every packet of this kind has."""
    settable = [name for name in VALUES if FIELDS[name].settable and satisfied(FIELDS[name].needs, kind)]
    found: list[Action] = [SetField(name, value) for name in settable for value in VALUES[name]]
    found += [Move(source, target) for source, target in MOVES if source in settable and target in settable]
    return st.sampled_from(found)


def ways_out(groups: list[int]) -> st.SearchStrategy[Action]:
    found: list[Action] = [*map(Output, PORTS), OutputInPort(), ToController()]
    return st.sampled_from([*found, *map(ToGroup, groups * 4)])


def lives(kind: Mapping[str, Value]) -> list[Action]:
    return [DecTtl()] if satisfied(IP, kind) else []


@st.composite
def buckets(draw: st.DrawFn, kind: Mapping[str, Value], group_kind: GroupKind, below: list[int]) -> Bucket:
    """Draw an action set in any order: at most one DecTtl and one output."""
    actions = draw(st.lists(rewrites(kind), min_size=1, max_size=3))
    actions += draw(st.sampled_from([[], lives(kind)]))
    out = ways_out(below) | st.just(Resubmit(LAST_TABLE))
    actions += draw(st.lists(out, min_size=draw(st.sampled_from([0, 1, 1, 1])), max_size=1))
    watch_port = draw(st.sampled_from(PORTS)) if group_kind is GroupKind.FAST_FAILOVER else None
    return Bucket(tuple(draw(st.permutations(actions))), watch_port)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Program, list[tuple[Packet, int]]]:
    """Draw packets of one kind and a program that rewrites only headers that they have.

    Every flow has its own priority, so that no two flows tie.
    """
    kind = draw(st.sampled_from(KINDS))
    packets = [packet for packet in PACKETS if kind.items() <= packet.headers.items()]
    arrivals = draw(st.lists(st.tuples(st.sampled_from(packets), st.sampled_from(LIVE)), min_size=4, max_size=6))

    groups: list[Group] = []
    for group_id in range(1, draw(st.integers(2, 5))):
        group_kind = draw(st.sampled_from(GroupKind))
        bucket = buckets(kind, group_kind, [group.group_id for group in groups])
        groups.append(
            Group(
                group_id,
                group_kind,
                tuple(draw(st.lists(bucket, min_size=draw(st.sampled_from([0, 2, 2, 2])), max_size=3))),
            )
        )

    flows = []
    for priority, table in enumerate(draw(st.lists(st.integers(0, 2), min_size=2, max_size=6)), start=1):
        actions = draw(st.lists(rewrites(kind), max_size=2)) + draw(st.sampled_from([[], lives(kind)]))
        actions += draw(st.lists(ways_out([group.group_id for group in groups]), max_size=3))
        flows.append(
            Flow(
                table,
                priority,
                fields(**kind, **draw(further(kind))),
                tuple(draw(st.permutations(actions))),
                goto=draw(st.sampled_from([None, table + 1, table + 1])),
                meter=draw(st.sampled_from([None, METER.meter_id])),
            )
        )
    flows.append(Flow(0, 0, fields(), (Output(1),), goto=1))
    last = (*draw(st.lists(rewrites(kind), max_size=2)), *draw(st.lists(ways_out([]), max_size=2)))
    flows.append(Flow(LAST_TABLE, 1, fields(**kind), last, meter=METER.meter_id))
    return Program.of(flows, groups, [METER]), arrivals


def further(kind: Mapping[str, Value]) -> st.SearchStrategy[dict[str, Value]]:
    """Draw one more field to match, or none."""
    named = [name for name in VALUES if satisfied(FIELDS[name].needs, kind)]
    found: list[dict[str, Value]] = [{name: value} for name in named for value in VALUES[name]]
    found += [{name: MASKED[name]} for name in named if name in MASKED] * 4
    found += [{"in_port": port} for port in LIVE]
    return st.just({}) | st.sampled_from(found)


# No shrinking: every example asks the real switch a dozen questions.
BOUNDED = settings(
    max_examples=60,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@BOUNDED
@given(case=cases())
def test_both_switches_forward_a_packet_alike(real: RealSwitch, case: tuple[Program, list[tuple[Packet, int]]]) -> None:
    program, arrivals = case
    switch = fake().load(program)
    real.load(program)
    for packet, in_port in arrivals:
        assert switch.send(packet, in_port) == real.send(packet, in_port)


some_action = st.sampled_from(
    [Output(1), Output(ABSENT), Output(0xFF00), DecTtl(), SetField("ipv4_src", "10.0.0.1"), Move("arp_spa", "arp_tpa")]
)
some_id = st.integers(1, 2)
# Each match has its prerequisites: ovs-ofctl adds missing ones, so the switch never sees the mistake.
some_match = st.sampled_from(
    [
        fields(),
        fields(eth_type=0x0800),
        fields(eth_type=0x0806),
        fields(eth_type=0x0800, ip_proto=6),
        fields(eth_type=0x86DD, ip_proto=6, tcp_dst=80),
    ]
)
some_group = st.builds(
    Group,
    some_id,
    st.sampled_from(GroupKind),
    st.lists(
        st.builds(Bucket, st.tuples(some_action | some_id.map(ToGroup)), st.sampled_from([None, 1, ABSENT])), max_size=2
    ).map(tuple),
)
some_flow = st.builds(
    Flow,
    st.sampled_from([0, 0, 0, 1, 1, 1, 254]),
    st.just(1),
    some_match,
    st.tuples(some_id.map(ToGroup) | some_action),
    goto=st.sampled_from([None, None, None, 1, 2]),
    meter=st.sampled_from([None, None, None, 1, 2]),
)
some_meter = st.builds(Meter, some_id, st.just(100), st.just(10))
some_change: st.SearchStrategy[Change] = st.one_of(
    st.builds(AddGroup, some_group),
    st.builds(ModifyGroup, some_group),
    st.builds(DeleteGroup, some_id),
    st.builds(AddMeter, some_meter),
    st.builds(ModifyMeter, some_meter),
    st.builds(DeleteMeter, some_id),
    st.builds(AddFlow, some_flow),
    st.builds(AddFlow, some_flow),
    st.builds(ModifyFlow, some_flow),
    st.builds(DeleteFlow, st.builds(Flow, st.integers(0, 1), st.just(1), some_match)),
)


IP_FLOWS = fields(eth_type=0x0800)
BEGINNING: tuple[Change, ...] = (
    AddGroup(Group(1, GroupKind.ALL, ())),
    AddMeter(Meter(1, 100, 10)),
    AddFlow(Flow(0, 1, IP_FLOWS, (ToGroup(1),))),
    AddFlow(Flow(1, 1, IP_FLOWS, meter=1)),
)


@settings(BOUNDED, max_examples=20)
@given(changes=st.lists(some_change, min_size=4, max_size=10))
def test_both_switches_accept_and_refuse_the_same_changes(real: RealSwitch, changes: list[Change]) -> None:
    switch = fake()
    real.clear()
    for change in (*BEGINNING, *changes):
        try:
            switch.change(change)
            taken = True
        except TableRefusal:
            taken = False
        assert real.takes(change) == taken, change
    assert real.held() == (len(switch.flows), set(switch.groups))
