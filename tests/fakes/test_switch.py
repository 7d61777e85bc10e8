"""The fake switch, rule by rule, against OpenFlow 1.3.5 (sections are those of that document)."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
    Counters,
    DecTtl,
    Flow,
    Group,
    GroupKind,
    Meter,
    Move,
    Output,
    OutputInPort,
    SetField,
    ToController,
    ToGroup,
    Value,
    fields,
)
from controller.protocol.switch_messages import Apply, SwitchApplied, SwitchRefused
from tests.fakes.admission import Refused
from tests.fakes.fields import IllDefined
from tests.fakes.packet import (
    BROADCAST,
    GATEWAY_MAC,
    TERMINAL_MAC,
    advertise,
    arp_reply,
    arp_request,
    echo,
    ip,
    sctp,
    solicit,
    tcp,
    udp,
)
from tests.fakes.pipeline import Outcome, Sent
from tests.fakes.switch import FakeSwitch

HOME, WIFI, LTE = 1, 2, 3
ABSENT = 99
OURS = 0x6200_0001
OUR_METER = 0x6201
WIFI_MAC, LTE_MAC = "02:00:00:00:00:f1", "02:00:00:00:00:f2"
SEGMENT = tcp("192.168.110.3", "10.0.0.9")
SEGMENT6 = tcp("fd00:110::3", "fd00::9")
WIFI_BUCKET = Bucket((SetField("eth_src", WIFI_MAC), Output(WIFI)))
LTE_BUCKET = Bucket((SetField("eth_src", LTE_MAC), Output(LTE)))


def switch(*changes: Change) -> FakeSwitch:
    made = FakeSwitch.with_ports("home", "wifi", "lte")
    for change in changes:
        made.change(change)
    return made


def flow(*actions: Action, table: int = 0, priority: int = 1, goto: int | None = None, **match: Value) -> AddFlow:
    return AddFlow(Flow(table, priority, fields(**match), actions, goto))


def ipv4(*actions: Action, table: int = 0, priority: int = 1, goto: int | None = None, **match: Value) -> AddFlow:
    return flow(*actions, table=table, priority=priority, goto=goto, eth_type=0x0800, **match)


def group(*buckets: Bucket, kind: GroupKind = GroupKind.ALL, group_id: int = OURS) -> AddGroup:
    return AddGroup(Group(group_id, kind, buckets))


def failover(*buckets: Bucket) -> AddGroup:
    return group(*buckets, kind=GroupKind.FAST_FAILOVER)


def ports(outcome: Outcome) -> list[int]:
    return [sent.port for sent in outcome.sent]


# Tables (5.3): which flow takes a packet


def test_a_packet_that_no_flow_matches_is_dropped() -> None:
    assert switch(flow(Output(WIFI), eth_type=0x86DD)).send(SEGMENT, HOME) == Outcome()


def test_the_highest_priority_alone_takes_the_packet() -> None:
    assert ports(switch(flow(Output(WIFI)), flow(Output(LTE), priority=2)).send(SEGMENT, HOME)) == [LTE]


def test_two_flows_of_one_priority_for_one_packet_are_ill_defined() -> None:
    tied = switch(ipv4(Output(WIFI), ipv4_src="192.168.110.3"), ipv4(Output(LTE), ipv4_dst="10.0.0.0/8"))
    with pytest.raises(IllDefined, match="2 flows of one priority"):
        tied.send(SEGMENT, HOME)
    assert ports(tied.send(tcp("192.168.110.3", "11.0.0.1"), HOME)) == [WIFI]


def test_a_tie_below_the_flow_that_wins_does_no_harm() -> None:
    tied = switch(ipv4(ipv4_src="192.168.110.3"), ipv4(ipv4_dst="10.0.0.0/8"), flow(Output(LTE), priority=2))
    assert ports(tied.send(SEGMENT, HOME)) == [LTE]


@pytest.mark.parametrize(
    ("match", "packet", "matches"),
    [
        ({"in_port": HOME}, SEGMENT, True),
        ({"in_port": WIFI}, SEGMENT, False),
        ({"eth_type": 0x0800, "ipv4_dst": "224.0.0.0/4"}, udp("10.0.0.1", "239.255.255.250"), True),
        ({"eth_type": 0x0800, "ipv4_dst": "224.0.0.0/4"}, udp("10.0.0.1", "223.255.255.255"), False),
        ({"eth_type": 0x86DD, "ipv6_dst": "fe80::/10"}, udp("fd00::1", "febf::1"), True),
        ({"eth_type": 0x86DD, "ipv6_dst": "fe80::/10"}, udp("fd00::1", "fec0::1"), False),
        ({"eth_dst": "01:00:00:00:00:00/01:00:00:00:00:00"}, arp_request("10.0.0.1", "10.0.0.2"), True),
        ({"eth_dst": "01:00:00:00:00:00/01:00:00:00:00:00"}, SEGMENT, False),
        ({"eth_type": 0x0800, "ip_proto": 132}, ip("10.0.0.1", "10.0.0.2", 132), True),
        (
            {"eth_type": 0x0800, "ip_proto": 132, "sctp_dst": "0x50/0xfffe"},
            sctp("10.0.0.1", "10.0.0.2", sctp_dst=81),
            True,
        ),
        (
            {"eth_type": 0x0800, "ip_proto": 132, "sctp_dst": "0x50/0xfffe"},
            sctp("10.0.0.1", "10.0.0.2", sctp_dst=82),
            False,
        ),
        ({"eth_type": 0x0800, "ip_dscp": 46}, replace(SEGMENT, ip_dscp=46), True),
        ({"eth_type": 0x0800, "ip_dscp": 46}, SEGMENT, False),
        ({"eth_type": 0x0800, "ip_proto": 6}, SEGMENT6, False),
        ({"eth_type": 0x86DD, "ip_proto": 6, "tcp_dst": 80}, SEGMENT6, True),
        ({"eth_type": 0x0806, "arp_op": 1, "arp_tpa": "10.0.0.2"}, arp_request("10.0.0.1", "10.0.0.2"), True),
        ({"eth_type": 0x0806, "arp_op": 1, "arp_tpa": "10.0.0.2"}, arp_reply("10.0.0.1", "10.0.0.2"), False),
        ({"eth_type": 0x86DD, "ip_proto": 58, "icmpv6_type": 135}, solicit("fe80::3", "fe80::1"), True),
        ({"eth_type": 0x86DD, "ip_proto": 58, "icmpv6_type": 135}, advertise("fe80::3", "fe80::1"), False),
        ({"eth_type": 0x86DD, "ip_proto": 58, "icmpv6_type": 135}, echo("fe80::3", "fe80::1"), False),
    ],
)
def test_a_field_matches_its_value_and_masks_hide_bits(match: dict[str, Value], packet: object, matches: bool) -> None:
    assert ports(switch(flow(Output(WIFI), **match)).send(packet, HOME)) == [WIFI] * matches  # type: ignore[arg-type]


def test_a_later_table_sees_what_the_actions_before_it_did() -> None:
    tables = switch(
        ipv4(SetField("ipv4_dst", "10.0.0.8"), goto=1),
        ipv4(Output(WIFI), table=1, ipv4_dst="10.0.0.8"),
        ipv4(Output(LTE), table=1, ipv4_dst="10.0.0.9"),
    )
    assert ports(tables.send(SEGMENT, HOME)) == [WIFI]


# Actions (5.12): one after the other


def test_actions_run_in_their_order() -> None:
    outcome = switch(flow(Output(WIFI), SetField("eth_src", LTE_MAC), Output(LTE))).send(SEGMENT, HOME)
    assert [(sent.port, sent.packet.eth_src) for sent in outcome.sent] == [(WIFI, TERMINAL_MAC), (LTE, LTE_MAC)]


def test_the_controller_is_shown_the_packet_as_it_is_then_and_the_packet_goes_on() -> None:
    outcome = switch(flow(ToController(), SetField("eth_src", LTE_MAC), Output(LTE))).send(SEGMENT, HOME)
    assert outcome.punted == (SEGMENT,)
    assert ports(outcome) == [LTE]


def test_a_packet_leaves_by_the_port_it_came_in_only_when_that_is_asked_by_name() -> None:
    assert switch(flow(Output(HOME))).send(SEGMENT, HOME) == Outcome()
    assert switch(flow(OutputInPort())).send(SEGMENT, HOME) == Outcome((Sent(HOME, SEGMENT),))


def test_what_is_sent_to_a_port_that_is_down_or_absent_is_lost() -> None:
    lost = switch(flow(Output(WIFI), Output(ABSENT), Output(LTE)))
    lost.down("wifi")
    assert ports(lost.send(SEGMENT, HOME)) == [LTE]
    lost.up("wifi")
    assert ports(lost.send(SEGMENT, HOME)) == [WIFI, LTE]


def test_nothing_arrives_at_a_port_that_is_down() -> None:
    deaf = switch()
    deaf.down("home")
    with pytest.raises(ValueError, match="down or absent"):
        deaf.send(SEGMENT, HOME)


@pytest.mark.parametrize("ttl", [0, 1])
@pytest.mark.parametrize(
    ("eth_type", "source", "destination"), [(0x0800, "10.0.0.1", "10.0.0.2"), (0x86DD, "fd00::1", "fd00::2")]
)
def test_a_packet_whose_life_ends_goes_no_further(ttl: int, eth_type: int, source: str, destination: str) -> None:
    tables = switch(flow(Output(WIFI), DecTtl(), Output(LTE), goto=1, eth_type=eth_type), flow(Output(LTE), table=1))
    assert ports(tables.send(tcp(source, destination, ttl=ttl), HOME)) == [WIFI]
    assert [sent.packet.nw_ttl for sent in tables.send(tcp(source, destination, ttl=2), HOME).sent] == [2, 1, 1]


def test_an_arp_request_becomes_its_answer() -> None:
    answering = switch(
        flow(
            Move("eth_src", "eth_dst"),
            SetField("eth_src", GATEWAY_MAC),
            SetField("arp_op", 2),
            Move("arp_sha", "arp_tha"),
            Move("arp_spa", "arp_tpa"),
            SetField("arp_sha", GATEWAY_MAC),
            SetField("arp_spa", "192.168.110.2"),
            OutputInPort(),
            eth_type=0x0806,
            arp_op=1,
            arp_tpa="192.168.110.2",
        )
    )
    answer = arp_reply("192.168.110.2", "192.168.110.3", eth_src=GATEWAY_MAC, eth_dst=TERMINAL_MAC)
    assert answering.send(arp_request("192.168.110.3", "192.168.110.2"), HOME) == Outcome((Sent(HOME, answer),))


@pytest.mark.parametrize("action", [SetField("ipv4_src", "10.0.0.1"), Move("ipv4_dst", "ipv4_src"), DecTtl()])
def test_an_action_on_a_header_that_the_packet_has_not_is_ill_defined(action: Action) -> None:
    blind = switch(group(Bucket((action, Output(WIFI)))), flow(ToGroup(OURS)))
    with pytest.raises(IllDefined):
        blind.send(arp_request("10.0.0.1", "10.0.0.2"), HOME)


def test_setting_an_ipv4_address_of_an_ipv6_packet_is_ill_defined() -> None:
    blind = switch(group(Bucket((SetField("ipv4_src", "10.0.0.1"), Output(WIFI)))), flow(ToGroup(OURS)))
    with pytest.raises(IllDefined, match="this packet has no ipv4_src"):
        blind.send(SEGMENT6, HOME)


# Groups (5.6)


def test_an_all_group_gives_every_bucket_a_copy_of_its_own() -> None:
    outcome = switch(group(WIFI_BUCKET, Bucket((Output(LTE),))), flow(ToGroup(OURS))).send(SEGMENT, HOME)
    assert [(sent.port, sent.packet.eth_src) for sent in outcome.sent] == [(WIFI, WIFI_MAC), (LTE, TERMINAL_MAC)]


def test_a_packet_goes_on_behind_a_group_as_it_went_in() -> None:
    outcome = switch(group(WIFI_BUCKET), flow(ToGroup(OURS), Output(LTE))).send(SEGMENT, HOME)
    assert outcome.sent[1] == Sent(LTE, SEGMENT)


def test_a_group_with_no_bucket_drops() -> None:
    assert switch(group(), flow(ToGroup(OURS))).send(SEGMENT, HOME) == Outcome()
    assert switch(failover(), flow(ToGroup(OURS))).send(SEGMENT, HOME) == Outcome()


def test_fast_failover_takes_the_first_bucket_whose_port_is_live_and_takes_it_again_when_it_is_back() -> None:
    armed = switch(failover(Bucket((Output(WIFI),), WIFI), Bucket((Output(LTE),), LTE)), flow(ToGroup(OURS)))
    assert ports(armed.send(SEGMENT, HOME)) == [WIFI]
    armed.down("wifi")
    assert ports(armed.send(SEGMENT, HOME)) == [LTE]
    armed.down("lte")
    assert ports(armed.send(SEGMENT, HOME)) == []
    armed.up("wifi")
    assert ports(armed.send(SEGMENT, HOME)) == [WIFI]


def test_a_port_that_is_absent_is_not_live() -> None:
    armed = switch(failover(Bucket((Output(ABSENT),), ABSENT), Bucket((Output(LTE),), LTE)), flow(ToGroup(OURS)))
    assert ports(armed.send(SEGMENT, HOME)) == [LTE]


def test_fast_failover_does_not_pass_over_a_live_bucket_that_leads_back() -> None:
    armed = switch(failover(Bucket((Output(HOME),), HOME), Bucket((Output(LTE),), LTE)), flow(ToGroup(OURS)))
    assert ports(armed.send(SEGMENT, HOME)) == []


def test_a_bucket_is_an_action_set_and_runs_in_the_order_of_a_set() -> None:
    written_backwards = Bucket((Output(WIFI), SetField("eth_src", WIFI_MAC), DecTtl()))
    outcome = switch(group(written_backwards), ipv4(ToGroup(OURS))).send(SEGMENT, HOME)
    assert [(sent.packet.eth_src, sent.packet.nw_ttl) for sent in outcome.sent] == [(WIFI_MAC, 63)]


@pytest.mark.parametrize("second", [Output(LTE), OutputInPort(), ToController(), ToGroup(7)])
def test_a_bucket_with_two_ways_out_is_ill_defined(second: Action) -> None:
    with pytest.raises(IllDefined, match="one way out"):
        switch(group(Bucket((Output(WIFI), second))), flow(ToGroup(OURS))).send(SEGMENT, HOME)


def test_a_life_that_ends_in_a_bucket_ends_that_copy_alone() -> None:
    ending = switch(group(Bucket((DecTtl(), Output(WIFI))), LTE_BUCKET), ipv4(ToGroup(OURS), Output(WIFI)))
    assert ports(ending.send(tcp("10.0.0.1", "10.0.0.2", ttl=1), HOME)) == [LTE, WIFI]


def test_groups_lead_to_groups_but_never_round_nor_to_nothing() -> None:
    chained = switch(group(WIFI_BUCKET), group(Bucket((ToGroup(OURS),)), group_id=7), flow(ToGroup(7)))
    assert ports(chained.send(SEGMENT, HOME)) == [WIFI]
    chained.change(ModifyGroup(Group(OURS, GroupKind.ALL, (Bucket((ToGroup(7),)),))))
    with pytest.raises(IllDefined, match="leads to itself"):
        chained.send(SEGMENT, HOME)
    chained.change(DeleteGroup(OURS))
    with pytest.raises(IllDefined, match="not there"):
        chained.send(SEGMENT, HOME)


def test_a_group_can_be_entered_twice_one_after_the_other() -> None:
    assert ports(switch(group(WIFI_BUCKET), flow(ToGroup(OURS), ToGroup(OURS))).send(SEGMENT, HOME)) == [WIFI, WIFI]


# Meters (5.7)


def test_a_meter_lets_all_pass_until_it_is_exhausted_and_then_nothing() -> None:
    metered = Flow(0, 1, fields(), (ToController(), Output(WIFI)), goto=1, meter=OUR_METER)
    limited = switch(AddMeter(Meter(OUR_METER, 100, 10)), AddFlow(metered), flow(Output(LTE), table=1))
    assert limited.send(SEGMENT, HOME) == Outcome((Sent(WIFI, SEGMENT), Sent(LTE, SEGMENT)), (SEGMENT,))
    limited.exhausted.add(OUR_METER)
    assert limited.send(SEGMENT, HOME) == Outcome()


# Changes (6.4 to 6.7): what is refused, and what happens to the rest


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (group(), "OFPGMFC_GROUP_EXISTS"),
        (ModifyGroup(Group(7, GroupKind.ALL, ())), "OFPGMFC_UNKNOWN_GROUP"),
        (group(Bucket((Output(WIFI),), WIFI), group_id=7), "OFPGMFC_WATCH_UNSUPPORTED"),
        (group(WIFI_BUCKET, kind=GroupKind.FAST_FAILOVER, group_id=7), "OFPGMFC_INVALID_GROUP"),
        (AddMeter(Meter(OUR_METER, 1, 1)), "OFPMMFC_METER_EXISTS"),
        (ModifyMeter(Meter(7, 1, 1)), "OFPMMFC_UNKNOWN_METER"),
        (flow(ToGroup(7)), "OFPBAC_BAD_OUT_GROUP"),
        (ModifyFlow(flow(ToGroup(7)).flow), "OFPBAC_BAD_OUT_GROUP"),
        (ModifyFlow(flow(DecTtl(), priority=7).flow), "OFPBAC_MATCH_INCONSISTENT"),
        (AddFlow(Flow(0, 1, fields(), meter=7)), "OFPMMFC_INVALID_METER"),
        (flow(table=3, goto=2), "OFPBIC_BAD_TABLE_ID"),
        (flow(table=3, goto=3), "OFPBIC_BAD_TABLE_ID"),
        (flow(table=254), "OFPBRC_EPERM"),
        (flow(Output(0xFF00)), "OFPBAC_BAD_OUT_PORT"),
        (flow(ipv4_src="10.0.0.1"), "OFPBMC_BAD_PREREQ"),
        (flow(eth_type=0x0800, tcp_dst=80), "OFPBMC_BAD_PREREQ"),
        (flow(DecTtl()), "OFPBAC_MATCH_INCONSISTENT"),
        (flow(SetField("ipv4_src", "10.0.0.1"), eth_type=0x86DD), "OFPBAC_MATCH_INCONSISTENT"),
        (flow(Move("arp_spa", "arp_tpa")), "OFPBAC_MATCH_INCONSISTENT"),
    ],
)
def test_a_change_is_refused_with_the_reason_and_changes_nothing(change: Change, error: str) -> None:
    held = switch(group(), AddMeter(Meter(OUR_METER, 100, 10)), flow(Output(WIFI)))
    before, counted = held.installed(), held.changes.copy()
    with pytest.raises(Refused) as refused:
        held.change(change)
    assert refused.value.error == error
    assert held.installed() == before
    assert held.changes == counted


@pytest.mark.parametrize(
    "change",
    [
        flow(ipv4_src="10.0.0.1/24", eth_type=0x0800),
        flow(ipv4_src="10.0.0.1/32", eth_type=0x0800),
        flow(eth_src="02:00:00:00:00:0A"),
        flow(eth_dst="01:00:00:00:00:00/ff:ff:ff:ff:ff:ff"),
        flow(ipv6_src="fd00:0::1", eth_type=0x86DD),
        flow(in_port="home"),
        flow(tcp_port=80),
        flow(SetField("eth_type", 0x0800)),
        flow(Move("ipv4_src", "eth_src"), eth_type=0x0800),
        AddFlow(Flow(0, 1, (("eth_type", 0x0800), ("eth_dst", BROADCAST)))),
    ],
)
def test_what_is_not_in_the_canonical_form_is_ill_defined(change: AddFlow) -> None:
    with pytest.raises(IllDefined):
        switch(change)


@pytest.mark.parametrize(
    "change",
    [DeleteGroup(7), DeleteMeter(7), DeleteFlow(flow(priority=7).flow), ModifyFlow(flow(ToGroup(7), priority=7).flow)],
)
def test_deleting_or_modifying_a_flow_that_is_absent_is_no_error_and_does_nothing(change: Change) -> None:
    held = switch(group(), AddMeter(Meter(OUR_METER, 100, 10)), flow(Output(WIFI)))
    before = held.installed()
    held.change(change)
    assert held.installed() == before


def test_adding_a_flow_replaces_the_one_with_the_same_match_and_priority() -> None:
    replaced = switch(flow(Output(WIFI)), flow(Output(LTE)))
    assert ports(replaced.send(SEGMENT, HOME)) == [LTE]
    assert len(replaced.flows) == 1


def test_modifying_a_group_needs_no_flow_to_change() -> None:
    held = switch(group(WIFI_BUCKET), flow(ToGroup(OURS)))
    held.changes.clear()
    held.change(ModifyGroup(failover(Bucket((Output(LTE),), LTE)).group))
    assert ports(held.send(SEGMENT, HOME)) == [LTE]
    assert held.changes == {ModifyGroup: 1}


def test_with_a_group_go_the_flows_that_point_to_it() -> None:
    held = switch(group(), group(group_id=7), flow(ToGroup(OURS)), flow(ToGroup(7), priority=2), flow(priority=3))
    held.change(DeleteGroup(OURS))
    assert [each.priority for each in held.flows.values()] == [2, 3]


def test_with_a_meter_go_the_flows_that_it_limits() -> None:
    held = switch(AddMeter(Meter(OUR_METER, 100, 10)), AddFlow(Flow(0, 1, fields(), meter=OUR_METER)), flow(priority=3))
    held.change(DeleteMeter(OUR_METER))
    assert [each.priority for each in held.flows.values()] == [3]


def test_an_order_is_carried_out_behind_a_refusal_and_answered_by_its_ticket() -> None:
    held = switch()
    bad, good = flow(ToGroup(7)), flow(Output(WIFI))
    refused, applied = held.apply(Apply(session=3, ticket=5, changes=(bad, good)))
    assert isinstance(refused, SwitchRefused)
    assert (refused.session, refused.ticket, refused.change) == (3, 5, bad)
    assert refused.reason.startswith("OFPBAC_BAD_OUT_GROUP: there is no group 0x7")
    assert applied == SwitchApplied(3, 5)
    assert held.changes == {AddFlow: 1}


# Reading


def test_what_is_foreign_works_but_is_not_read_as_ours() -> None:
    theirs = flow(ToGroup(7), priority=9).flow
    shared = switch(group(), group(WIFI_BUCKET, group_id=7), AddMeter(Meter(7, 1, 1)), flow(Output(LTE)))
    shared.add_foreign(theirs)
    assert ports(shared.send(SEGMENT, HOME)) == [WIFI]
    installed = shared.installed()
    assert list(installed.program.flows.values()) == [flow(Output(LTE)).flow]
    assert (list(installed.program.groups), list(installed.program.meters)) == ([OURS], [])
    assert installed.foreign_flows == {theirs.key}


def test_a_foreign_flow_is_neither_modified_nor_deleted_by_our_cookie_but_an_add_takes_its_place() -> None:
    theirs = flow(Output(WIFI)).flow
    shared = switch()
    shared.add_foreign(theirs)
    shared.change(DeleteFlow(theirs))
    shared.change(ModifyFlow(flow(Output(LTE)).flow))
    assert ports(shared.send(SEGMENT, HOME)) == [WIFI]
    shared.change(flow(Output(LTE)))
    assert ports(shared.send(SEGMENT, HOME)) == [LTE]
    assert shared.installed().foreign_flows == frozenset()


def test_packets_are_counted_where_they_went() -> None:
    counting = switch(failover(Bucket((Output(WIFI),), WIFI), Bucket((Output(LTE),), LTE)), flow(ToGroup(OURS)))
    counting.send(SEGMENT, HOME)
    counting.down("wifi")
    counting.send(SEGMENT, HOME)
    counting.send(SEGMENT, HOME)
    one, two, three = (Counters(packets, 64 * packets) for packets in (1, 2, 3))
    installed = counting.installed()
    assert installed.flow_counters == {(0, 1, ()): three}
    assert installed.bucket_counters == {OURS: (one, two)}
    assert installed.port_counters[HOME].received == three
    assert (installed.port_counters[WIFI].sent, installed.port_counters[LTE].sent) == (one, two)


def test_a_modified_group_counts_from_nothing_again_and_a_replaced_flow_goes_on_counting() -> None:
    counting = switch(group(WIFI_BUCKET), flow(ToGroup(OURS)))
    counting.send(SEGMENT, HOME)
    counting.change(ModifyGroup(group(LTE_BUCKET).group))
    counting.change(flow(ToGroup(OURS)))
    installed = counting.installed()
    assert installed.bucket_counters == {OURS: (Counters(0, 0),)}
    assert installed.flow_counters == {(0, 1, ()): Counters(1, 64)}
