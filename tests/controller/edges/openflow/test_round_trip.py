# SPDX-License-Identifier: Apache-2.0
"""A real switch returns what was sent to it. These are the parts that the gateway of test_audit lacks."""

from __future__ import annotations

from controller.program.diff import AddFlow, AddGroup, AddMeter, Change
from controller.program.program import (
    GROUP_IDS,
    METER_IDS,
    Action,
    Bucket,
    Fields,
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
    fields,
)
from controller.protocol.switch_messages import SwitchOpened
from tests.controller.edges.openflow.conftest import WireRecorder

MAC = "08:00:27:81:6b:cf"
G, M = GROUP_IDS[0], METER_IDS[0]

CLASS = {"eth_type": 0x86DD, "in_port": 1, "ip_proto": 17, "ip_dscp": 46}
MATCHES = {
    "local port": fields(in_port=0xFFFFFFFE),
    "masked mac": fields(eth_dst="01:00:00:00:00:00/01:00:00:00:00:00"),
    "ipv4 odd mask": fields(eth_type=0x0800, ipv4_src="10.0.0.1/255.0.0.255"),
    "tcp": fields(eth_type=0x0800, ip_proto=6, tcp_dst=80),
    "udp": fields(eth_type=0x0800, ip_proto=17, udp_dst=53),
    "tcp ports of one mask over ipv6": fields(eth_type=0x86DD, ip_proto=6, tcp_src="0x8000/0x8000"),
    "sctp ports of one mask": fields(eth_type=0x86DD, ip_proto=132, sctp_src="0x50/0xfff0"),
    "sctp port": fields(eth_type=0x0800, ip_proto=132, sctp_dst=80),
    "all fields of a class": fields(**CLASS, ipv6_src="fd00:110::3", ipv6_dst="2001:db8::/32", udp_dst="0x2710/0xfff0"),
    "unrouted solicitation": fields(
        eth_type=0x86DD, ip_proto=58, icmpv6_type=135, ipv6_nd_target="fd00:110::/64", ipv6_src="::", nw_ttl=255
    ),
    "arp for a network": fields(eth_type=0x0806, arp_op=1, arp_tpa="192.168.110.0/24", in_port=1),
    "arp": fields(eth_type=0x0806, arp_op=1, arp_spa="192.168.110.3", arp_tpa="192.168.110.2", arp_sha=MAC),
    "metadata": fields(metadata=5),
    "masked metadata": fields(metadata="0x5/0xff"),
}

IPV4, IPV6 = fields(eth_type=0x0800), fields(eth_type=0x86DD)
ACTIONS: dict[str, tuple[Fields, tuple[Action, ...]]] = {
    "ipv4": (IPV4, (SetField("ipv4_src", "10.1.2.3"), SetField("ipv4_dst", "10.1.2.4"), Output(2))),
    "ipv6": (IPV6, (SetField("ipv6_src", "fd00::1"), SetField("ipv6_dst", "fd00::2"), Output(2))),
    "dscp": (IPV4, (SetField("ip_dscp", 46), Output(2))),
    "ports": (fields(eth_type=0x0800, ip_proto=6), (SetField("tcp_dst", 8080), Output(2))),
    "local port": (fields(), (Output(0xFFFFFFFE),)),
    "group": (fields(), (ToGroup(G),)),
    "advertisement of the sender": (
        fields(eth_type=0x86DD, ip_proto=58, icmpv6_type=136, ipv6_nd_target="fd00:110::3"),
        (
            SetField("icmpv6_nd_options_type", 2),
            SetField("icmpv6_nd_reserved", 0x40000000),
            Move("eth_src", "ipv6_nd_tll"),
            OutputInPort(),
        ),
    ),
    "solicitation by the sender": (
        fields(eth_type=0x86DD, ip_proto=58, icmpv6_type=135, ipv6_nd_target="fd00:110::3"),
        (Move("ipv6_src", "ipv6_nd_target"), Move("eth_src", "ipv6_nd_sll"), OutputInPort()),
    ),
}

GROUPS = {
    "none": Group(G + 1, GroupKind.ALL, ()),
    "a table on the way": Group(G + 6, GroupKind.ALL, (Bucket((SetField("eth_dst", MAC), Resubmit(10))),)),
    "failover": Group(
        G + 5,
        GroupKind.FAST_FAILOVER,
        tuple(Bucket((SetField("eth_src", MAC), Output(port)), watch_port=port) for port in (2, 1)),
    ),
}


def _installed(recorder: WireRecorder, session: int, wanted: Program) -> Program:
    changes: list[Change] = [
        *(AddMeter(meter) for meter in wanted.meters.values()),
        *(AddGroup(group) for group in wanted.groups.values()),
        *(AddFlow(flow) for flow in wanted.flows.values()),
    ]
    assert recorder.apply(session, *changes) == []
    return recorder.read(session).program


def test_matches_actions_and_groups_are_read_as_sent(recorder: WireRecorder, bridge: SwitchOpened) -> None:
    flows = [Flow(1, 100, match, (Output(2),)) for match in MATCHES.values()]
    flows += [Flow(0, priority, *each) for priority, each in enumerate(ACTIONS.values(), start=1)]
    wanted = Program.of(flows, [Group(G, GroupKind.ALL, ()), *GROUPS.values()])
    assert len(wanted.flows) == len(MATCHES) + len(ACTIONS)
    assert _installed(recorder, bridge.session, wanted) == wanted


def test_meters_and_later_tables_are_read_as_sent(recorder: WireRecorder, bridge: SwitchOpened) -> None:
    wanted = Program.of(
        [
            Flow(0, 1, fields(in_port=1), (ToController(),), goto=3, meter=M),
            Flow(0, 2, fields(in_port=2), goto=1),
            Flow(3, 0, fields(), (), meter=M),
        ],
        meters=[Meter(M, 100, 50), Meter(METER_IDS[-1], 1, 1)],
    )
    assert _installed(recorder, bridge.session, wanted) == wanted
    assert recorder.read(bridge.session).meter_passed == {M: 0, METER_IDS[-1]: 0}
