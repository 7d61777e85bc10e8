"""What the fake switch says of programs that mean nothing, and what it counts; how it forwards, it shares with OVS."""

from __future__ import annotations

import pytest

from controller.program.diff import (
    AddFlow,
    AddGroup,
    AddMeter,
    Change,
    DeleteFlow,
    DeleteGroup,
    ModifyFlow,
    ModifyGroup,
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
from tests.fakes.fields import IllDefined
from tests.fakes.packet import (
    BROADCAST,
    arp_request,
    tcp,
)
from tests.fakes.pipeline import Outcome, Sent
from tests.fakes.switch import FakeSwitch

HOME, WIFI, LTE = 1, 2, 3
ABSENT = 99
OURS = 0x6200_0001
OUR_METER = 0x6201
WIFI_MAC, LTE_MAC = "02:00:00:00:00:f1", "02:00:00:00:00:f2"
SEGMENT = tcp("192.168.110.3", "10.0.0.9")
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


def test_two_flows_of_one_priority_for_one_packet_are_ill_defined() -> None:
    tied = switch(ipv4(Output(WIFI), ipv4_src="192.168.110.3"), ipv4(Output(LTE), ipv4_dst="10.0.0.0/8"))
    with pytest.raises(IllDefined, match="2 flows of one priority"):
        tied.send(SEGMENT, HOME)
    assert ports(tied.send(tcp("192.168.110.3", "11.0.0.1"), HOME)) == [WIFI]


def test_a_tie_below_the_flow_that_wins_does_no_harm() -> None:
    tied = switch(ipv4(ipv4_src="192.168.110.3"), ipv4(ipv4_dst="10.0.0.0/8"), flow(Output(LTE), priority=2))
    assert ports(tied.send(SEGMENT, HOME)) == [LTE]


@pytest.mark.parametrize("action", [SetField("ipv4_src", "10.0.0.1"), Move("ipv4_dst", "ipv4_src"), DecTtl()])
def test_an_action_on_a_header_that_the_packet_has_not_is_ill_defined(action: Action) -> None:
    blind = switch(group(Bucket((action, Output(WIFI)))), flow(ToGroup(OURS)))
    with pytest.raises(IllDefined):
        blind.send(arp_request("10.0.0.1", "10.0.0.2"), HOME)


# Groups (5.6)


@pytest.mark.parametrize("second", [Output(LTE), OutputInPort(), ToController(), ToGroup(7)])
def test_a_bucket_with_two_ways_out_is_ill_defined(second: Action) -> None:
    with pytest.raises(IllDefined, match="one way out"):
        switch(group(Bucket((Output(WIFI), second))), flow(ToGroup(OURS))).send(SEGMENT, HOME)


def test_groups_lead_to_groups_but_never_round_nor_to_nothing() -> None:
    chained = switch(group(WIFI_BUCKET), group(Bucket((ToGroup(OURS),)), group_id=7), flow(ToGroup(7)))
    assert ports(chained.send(SEGMENT, HOME)) == [WIFI]
    chained.change(ModifyGroup(Group(OURS, GroupKind.ALL, (Bucket((ToGroup(7),)),))))
    with pytest.raises(IllDefined, match="leads to itself"):
        chained.send(SEGMENT, HOME)
    chained.change(DeleteGroup(OURS))
    with pytest.raises(IllDefined, match="not there"):
        chained.send(SEGMENT, HOME)


# Meters (5.7)


def test_a_meter_lets_all_pass_until_it_is_exhausted_and_then_nothing() -> None:
    metered = Flow(0, 1, fields(), (ToController(), Output(WIFI)), goto=1, meter=OUR_METER)
    limited = switch(AddMeter(Meter(OUR_METER, 100, 10)), AddFlow(metered), flow(Output(LTE), table=1))
    assert limited.send(SEGMENT, HOME) == Outcome((Sent(WIFI, SEGMENT), Sent(LTE, SEGMENT)), (SEGMENT,))
    limited.exhausted.add(OUR_METER)
    assert limited.send(SEGMENT, HOME) == Outcome()


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
