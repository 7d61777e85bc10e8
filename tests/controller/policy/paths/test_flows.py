# SPDX-License-Identifier: Apache-2.0
"""The deltas of flows add up, for every reader of a report: each second, and each report of a quarter of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.policy.paths.flows import ConnectionDelta, FlowDelta, FlowTable, merged
from controller.protocol.reports import Connection, Subflow, SubflowKey

NEW = Subflow("192.0.2.1", 1000, "203.0.113.5", 443, False, False, 20_000, 20_000, 10, 0, 0, 0, 0, 0, 0)
COUNTS = ("segments_sent", "retransmits", "bytes_acked", "bytes_received")

# What each of three flows does before a report: it counts more, begins again on the same ports, or is absent.
STEPS = st.lists(
    st.tuples(*[st.one_of(st.tuples(*[st.integers(0, 50)] * 4), st.sampled_from(["again", "absent"]))] * 3), max_size=12
)


class Flows:
    def __init__(self) -> None:
        self.now: dict[int, Subflow | None] = {port: replace(NEW, local_port=port) for port in range(3)}

    def step(self, does: Iterable[object]) -> tuple[Connection, ...]:
        for port, what in enumerate(does):
            before = self.now[port]
            if what == "absent":
                self.now[port] = None
            elif what == "again" or before is None:
                self.now[port] = replace(NEW, local_port=port)
            else:
                more = dict(zip(COUNTS, what, strict=True))  # type: ignore[call-overload]
                self.now[port] = replace(before, **{name: getattr(before, name) + n for name, n in more.items()})
        return (Connection(7, True, tuple(each for each in self.now.values() if each is not None)),)


def acked(deltas: Iterable[ConnectionDelta]) -> Counter[SubflowKey]:
    return Counter({flow.key: flow.acked_bytes for one in deltas for flow in one.flows if flow.acked_bytes})


@given(STEPS)
def test_deltas_add_up_and_are_never_negative(steps: list[tuple[object, ...]]) -> None:
    flows, table, total = Flows(), FlowTable(), Counter[SubflowKey]()
    table.on_report(flows.step(()), 1000)
    begun = Counter[SubflowKey]()  # of flows that began again, or came back
    for does in steps:
        before = dict(flows.now)
        deltas = table.on_report(flows.step(does), 1000)
        for flow in (each for one in deltas for each in one.flows):
            assert min(flow.segments, flow.retransmits, flow.acked_bytes, flow.received_bytes) >= 0
            old = before[flow.key[1]]
            if old is not None and flow.subflow.bytes_acked < old.bytes_acked:
                begun[flow.key] += old.bytes_acked
            elif old is None:
                assert flow.acked_bytes == flow.subflow.bytes_acked
        total += acked(deltas)
        for port, old in before.items():
            if flows.now[port] is None and old is not None:
                begun[old.key] += old.bytes_acked
    now = Counter({each.key: each.bytes_acked for each in flows.now.values() if each is not None})
    assert total == +(now + begun)


@given(STEPS)
def test_merged_reports_count_what_the_single_ones_do(steps: list[tuple[object, ...]]) -> None:
    flows, often, seldom = Flows(), FlowTable(), FlowTable()
    first = flows.step(())
    often.on_report(first, 250)
    seldom.on_report(first, 1000)
    gathered: tuple[ConnectionDelta, ...] = ()
    for does in ([each for each in row if each not in ("again", "absent")] for row in steps):
        connections = flows.step(does)
        deltas = often.on_report(connections, 250)
        gathered = merged(gathered, deltas) if gathered else deltas
    if steps:
        assert acked(gathered) == acked(seldom.on_report(connections, 1000))


def test_first_report_and_a_report_after_a_silence_only_start_the_counters() -> None:
    table, sent = FlowTable(), replace(NEW, segments_sent=10, bytes_acked=14_000, in_flight_segments=3)
    nothing = FlowDelta(sent, False, 0, 0, 0, 0, 0)
    for _ in range(2):
        assert table.on_report((Connection(7, True, (sent,)),), 1000) == (ConnectionDelta(7, True, (nothing,)),)
        table.forget()
