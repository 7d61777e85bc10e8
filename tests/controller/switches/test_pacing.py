# SPDX-License-Identifier: Apache-2.0
"""Unchanged parts of a reading are not compared again, and changed parts are always detected."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

from controller.program.diff import diff
from controller.program.program import Bucket, Flow, Group, GroupKind, Output, Program
from controller.switches.pacing import EVERY_S, ReadCache, ReadSchedule

MEANT = Program.of(
    [Flow(0, priority, (), (Output(priority),)) for priority in (1, 2)],
    [Group(number, GroupKind.ALL, (Bucket((Output(number),)),)) for number in (3, 4)],
)
READ = deepcopy(MEANT)


def test_unchanged_entries_are_reused_and_others_are_detected() -> None:
    again = ReadCache(READ, MEANT).recognised(replace(READ, flows=dict(READ.flows), groups=dict(READ.groups)))
    assert all(again.flows[key] is flow for key, flow in MEANT.flows.items())
    assert all(again.groups[key] is group for key, group in MEANT.groups.items())
    changed = replace(next(iter(READ.flows.values())), actions=(Output(9),))
    read = Program.of([changed, Flow(0, 3, ())], [Group(3, GroupKind.ALL, ())])
    found = ReadCache(READ, MEANT).recognised(read)
    assert found == read and set(diff(found, MEANT)) == set(diff(read, MEANT)) and len(diff(found, MEANT)) == 5


def test_readings_of_many_switches_are_spread_over_ten_seconds() -> None:
    switches = [ReadSchedule(0.0) for _ in range(3 * EVERY_S)]
    at: dict[int, list[int]] = {number: [] for number in range(len(switches))}
    for second in range(1, 6 * EVERY_S):
        now = second + 0.3
        for session, looks in enumerate(switches):
            if looks.due(now):
                at[session].append(second)
                looks.taken(session, now)
    for seconds in at.values():
        assert {later - sooner for sooner, later in pairwise(seconds[1:])} == {EVERY_S}
    for second in range(EVERY_S, 5 * EVERY_S):
        assert sum(second in seconds for seconds in at.values()) == 3
