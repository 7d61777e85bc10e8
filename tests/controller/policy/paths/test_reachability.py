# SPDX-License-Identifier: Apache-2.0
"""A suspect uplink is dead if it is silent while another one answers. Silence of a server moves no terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from controller.policy.paths.reachability import (
    REST_S,
    AnswerCounts,
    UplinkReach,
    counted,
    due,
    far_answered,
    judged,
    near_answered,
    question_sent,
)

STEP_S = 0.1
TARGETS = ("203.0.113.5",)
CALL = 50.0  # packets a second


@dataclass
class SimulatedUplink:
    """A simulated uplink, with rates in packets a second."""

    sends: float = 0.0
    returns: float = 0.0
    near: bool = True  # its next hop answers
    far: bool = True  # an address beyond the next hop answers
    answers: Callable[[int], bool] = lambda number: True  # of the probes that could be answered
    rtt_s: float = 0.0


@dataclass
class ReachSimulation:
    """A simulation in steps of 0.1 s. Counters are read every 0.5 s, as from a switch."""

    fibre: SimulatedUplink = field(default_factory=lambda: SimulatedUplink(CALL, CALL))
    lte: SimulatedUplink = field(default_factory=SimulatedUplink)
    targets: tuple[str, ...] = TARGETS

    def __post_init__(self) -> None:
        self.lines = {"fibre": self.fibre, "lte": self.lte}
        self.reach = {name: near_answered(UplinkReach(self.targets), 0.0) for name in self.lines}
        self.counts = dict.fromkeys(self.lines, (0.0, 0.0))
        self.asked = dict.fromkeys(self.lines, 0)
        self._waiting: list[tuple[float, str, int]] = []
        self._steps = self._number = 0

    @property
    def now(self) -> float:
        return self._steps * STEP_S

    @property
    def one(self) -> UplinkReach:
        return self.reach["fibre"]

    def lasts(self, seconds: float) -> ReachSimulation:
        for _ in range(round(seconds / STEP_S)):
            self._step()
        return self

    def dies_after(self, most_s: float) -> float | None:
        began = self.now
        while self.now - began < most_s:
            self._step()
            if self.one.dead is not None:
                return self.now - began
        return None

    def _step(self) -> None:
        self._steps += 1
        for name, line in self.lines.items():
            sent, received = self.counts[name]
            self.counts[name] = sent + line.sends * STEP_S, received + line.returns * STEP_S
            if self._steps % 5 == 0:
                sent, received = self.counts[name]
                own = self.reach[name]
                self.reach[name] = counted(
                    own, round(received) + own.own_received, round(sent) + own.own_sent, self.now
                )
        arrived = [each for each in self._waiting if each[0] <= self.now]
        self._waiting = [each for each in self._waiting if each[0] > self.now]
        for _, name, number in arrived:
            self.reach[name] = far_answered(self.reach[name], number, self.now)
        self.reach = judged(self.reach, self.now)
        for name in due(self.reach, self.now):
            self._ask(name)

    def _ask(self, name: str) -> None:
        line = self.lines[name]
        self._number += 1
        self.asked[name] += 1
        self.reach[name] = question_sent(self.reach[name], self._number, 2, bool(self.targets), self.now)
        if line.near and line.answers(self._number):
            self.reach[name] = near_answered(self.reach[name], self.now)
        if self.targets and line.near and line.far and line.answers(self._number):
            self._waiting.append((self.now + line.rtt_s, name, self._number))


def one_in(number: int) -> Callable[[int], bool]:
    return lambda question: question % number == 0


@pytest.mark.parametrize(
    "fault",
    [
        {"returns": 0.0, "far": False},
        {"returns": 1.0, "far": False},  # its network carries one broadcast a second
        {"returns": 1.0, "near": False},
        {"returns": 5.0, "answers": one_in(10)},  # 90 % loss downstream
    ],
    ids=["its router still answers", "beside a broadcast", "its router is dead", "90 % are lost"],
)
def test_a_dead_uplink_is_found_within_three_seconds(fault: dict[str, object]) -> None:
    world = ReachSimulation().lasts(5.0)
    for name, value in fault.items():
        setattr(world.fibre, name, value)
    took_s = world.dies_after(10.0)
    assert took_s is not None and took_s <= 2.9
    assert world.one.dead is not None and "no packets return over it" in world.one.dead


def test_a_stalled_tcp_connection_beside_a_broadcast_is_enough() -> None:
    world = ReachSimulation(SimulatedUplink(20.0, 20.0)).lasts(5.0)
    world.fibre.sends, world.fibre.returns, world.fibre.far = 3.0, 1.0, False
    assert world.dies_after(3.5) is not None


def test_without_an_address_beyond_it_only_a_dead_router_is_found() -> None:
    world = ReachSimulation(targets=()).lasts(5.0)
    world.fibre.returns = 0.0
    assert world.dies_after(10.0) is None
    assert world.one.doubt is not None and "(`reach`)" in world.one.doubt
    world.fibre.returns, world.fibre.near = 1.0, False
    assert world.dies_after(2.9) is not None


@pytest.mark.parametrize(
    "silent",
    [SimulatedUplink(CALL, 0.0), SimulatedUplink(CALL, 1.0, far=False), SimulatedUplink(CALL, 0.0, near=False)],
    ids=["far", "near", "all"],
)
def test_uplink_stays_alive_if_no_other_one_answers(silent: SimulatedUplink) -> None:
    world = ReachSimulation().lasts(5.0)
    world.lte.far = world.lte.near = False
    world.fibre.returns, world.fibre.far, world.fibre.near = silent.returns, silent.far, silent.near
    assert world.dies_after(20.0) is None
    world.fibre.returns = CALL
    assert world.lasts(2.0).one.doubt is None


def test_silent_server_kills_no_uplink_and_costs_few_probes() -> None:
    world = ReachSimulation().lasts(5.0)
    world.asked = dict.fromkeys(world.asked, 0)
    world.fibre.returns = 0.0
    assert world.dies_after(20.0) is None
    assert world.asked["fibre"] <= 2 + 2 * 20.0 / REST_S and world.asked["lte"] == 0
    assert world.one.doubt is None, "it answers, so it is alive"


def test_idle_uplinks_are_probed_once_while_they_work() -> None:
    world = ReachSimulation().lasts(600.0)
    assert world.asked == {"fibre": 1, "lte": 0}


def test_address_that_never_answered_does_not_kill_the_uplink() -> None:
    world = ReachSimulation(SimulatedUplink(CALL, CALL, far=False)).lasts(5.0)
    world.fibre.returns = 0.0
    assert world.dies_after(20.0) is None
    assert world.one.doubt is not None and "it never answered there before" in world.one.doubt


def test_uplink_dead_from_the_start_is_found() -> None:
    world = ReachSimulation(SimulatedUplink(CALL, 0.0, far=False))
    assert world.dies_after(4.0) is not None


def test_late_answers_count() -> None:
    world = ReachSimulation(SimulatedUplink(CALL, CALL, rtt_s=1.5)).lasts(5.0)
    world.fibre.returns = 0.0
    assert world.dies_after(20.0) is None


def test_dead_uplink_returns_after_three_answers_in_a_row() -> None:
    world = ReachSimulation().lasts(5.0)
    world.fibre.returns, world.fibre.far = 0.0, False
    assert world.dies_after(10.0) is not None
    world.fibre.sends = 0.0
    world.fibre.answers, world.fibre.far = one_in(2), True
    assert world.lasts(20.0).one.dead is not None, "every other answer is not three in a row"
    world.fibre.answers = one_in(1)
    assert world.lasts(2.0).one.dead is not None
    assert world.lasts(3.0).one.dead is None


@pytest.mark.parametrize("compared", [True, False], ids=["far", "near"])
def test_uplink_stays_dead_when_only_its_router_answers(compared: bool) -> None:
    world = ReachSimulation().lasts(5.0)
    world.fibre.returns, world.fibre.near, world.lte.far = 0.0, False, compared
    assert world.dies_after(10.0) is not None
    world.fibre.sends, world.fibre.near, world.fibre.far = 0.0, True, False
    assert world.lasts(20.0).one.dead is not None


def test_death_ends_when_the_address_answers_nowhere() -> None:
    world = ReachSimulation().lasts(5.0)
    world.fibre.returns, world.fibre.far = 0.0, False
    assert world.dies_after(10.0) is not None
    world.fibre.sends, world.lte.far = 0.0, False
    assert world.lasts(60.0).one.dead is None
    assert world.one.doubt is not None and "over any uplink" in world.one.doubt


def test_counter_reset_is_no_evidence() -> None:
    one = counted(counted(UplinkReach(), 1000, 1000, 0.0), 1000, 1100, 0.5)
    assert counted(one, 1000, 1200, 1.0).suspect_since is not None
    assert counted(one, 900, 1200, 1.0).suspect_since is None
    assert counted(one, 1000, 900, 1.0).suspect_since is None


@pytest.mark.parametrize(
    ("told", "fails", "works"),
    [
        ([(0, 4), (1, 4)], True, False),
        ([(0, 0), (0, 3), (1, 0), (1, 3), (2, 4), (5, 3)], False, False),
        ([(2, 0), (6, 2)], False, True),
    ],
)
def test_tally_decides_by_the_share_of_answers(told: list[tuple[int, int]], fails: bool, works: bool) -> None:
    for each in map(AnswerCounts, *zip(*told, strict=True)):
        assert (each.fails, each.works) == (fails, works), each
