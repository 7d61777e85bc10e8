# SPDX-License-Identifier: Apache-2.0
"""A terminal leaves a lossy uplink for a better one, but never for one that carries less."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policy.paths import health
from controller.policy.paths import health as uplink_health
from controller.policy.paths.health import KNOWN_FOR_S, LATELY_S, Throughput, UplinkHealth, UplinkPath, UplinkReading
from controller.policy.paths.uplink_choice import MOST_MOVES, Course, UplinkDecision, decide, kept_because, left_by

FIRST = 100.0


def reading(mbps: float, loss_percent: int, limited: bool = True, unslowed: bool = False) -> UplinkReading:
    acked = int(mbps * 1e6 / 8)
    return UplinkReading(1000, 10 * loss_percent, acked, 0, limited=limited, unslowed_bytes=acked if unslowed else 0)


class SenderSimulation:
    """Two uplinks, each with a rate and a loss, and a sender with a wanted rate. Each second is one report.
    After a move an uplink delivers little for some reports: data in flight still arrives over the other one.
    """

    def __init__(
        self,
        wifi: tuple[float, int],
        lte: tuple[float, int],
        wants_mbps: float = 1000.0,
        slow_reports: int = 0,
        unslowed: bool = False,
    ) -> None:
        self.carries = {"wifi": wifi, "lte": lte}
        self.wants_mbps, self.slow_reports, self.unslowed = wants_mbps, slow_reports, unslowed
        self.paths = {"wifi": UplinkPath(), "lte": UplinkPath()}
        self.course = Course("wifi", FIRST)
        self.now = FIRST
        self.moves: list[UplinkDecision] = []
        self.delivered: list[float] = []

    def run(self, seconds: int) -> SenderSimulation:
        for _ in range(seconds):
            self.now += 1
            mbps, loss = self.carries[self.course.active]
            got = min(mbps, self.wants_mbps)
            self.delivered.append(got)
            begins = self.moves and self.now - self.course.since <= self.slow_reports
            active, said = self.course.active, reading(got, loss, self.wants_mbps >= mbps, self.unslowed)
            if begins:
                said = UplinkReading(8, 1 if loss else 0, 12_000, 0, limited=False)
            self.paths[active] = health.reported(self.paths[active], said, self.now)
            self.paths = {name: health.passed(path, self.now) for name, path in self.paths.items()}
            decision = decide("phone", "wifi", self.course, self.paths, self.now)
            if decision is not None:
                self.moves.append(decision)
                left = left_by(decision, active, self.paths[active])
                self.course = self.course.moved(decision.prefer, "wifi", self.now, left)
        return self


@pytest.mark.parametrize("slow_reports", [0, 1, 3, 5])
def test_fast_lossy_uplink_is_left_for_one_trial_at_most(slow_reports: int) -> None:
    """It has time to recover after the trial."""
    line = SenderSimulation(wifi=(60, 12), lte=(10, 0), slow_reports=slow_reports).run(120)
    assert line.course.active == "wifi"
    assert [each.prefer for each in line.moves] == ["lte", "wifi"]
    assert line.delivered.count(10) <= 5 + slow_reports
    assert "lte carries 10 Mbit/s at most, and wifi delivered 60 Mbit/s" in line.moves[-1].reason


@pytest.mark.parametrize(("tried_s", "left_s"), [(12, 20), (30, 8)])
def test_fast_lossy_uplink_is_left_when_it_becomes_slower(tried_s: int, left_s: int) -> None:
    line = SenderSimulation(wifi=(60, 12), lte=(10, 0)).run(tried_s)
    assert [each.prefer for each in line.moves] == ["lte", "wifi"]
    line.carries["wifi"] = (5, 12)
    assert line.run(left_s).course.active == "lte"


@pytest.mark.parametrize(("wifi", "wants_mbps"), [((6, 12), 1000), ((60, 12), 2)])
def test_lossy_uplink_is_left_for_one_that_carries_as_much(wifi: tuple[float, int], wants_mbps: float) -> None:
    line = SenderSimulation(wifi, lte=(10, 0), wants_mbps=wants_mbps).run(25)
    assert [each.prefer for each in line.moves] == ["lte"]
    assert min(line.delivered) == min(6, wants_mbps)


def test_dead_uplink_is_left_for_a_slow_one() -> None:
    line = SenderSimulation(wifi=(60, 12), lte=(10, 0)).run(30)
    dead = health.reported(line.paths["wifi"], UplinkReading(1, 1, 0, 600), line.now)
    decision = decide("phone", "wifi", line.course, line.paths | {"wifi": dead}, line.now)
    assert decision is not None and decision.prefer == "lte"


def test_dead_uplink_is_not_returned_to() -> None:
    line = SenderSimulation(wifi=(60, 12), lte=(10, 0)).run(4)
    assert line.course.active == "lte"
    line.paths["wifi"] = replace(line.paths["wifi"], health=UplinkHealth.DEAD)
    line.run(6)
    assert line.course.active == "lte"


def test_configured_bandwidth_saves_the_trial() -> None:
    line = SenderSimulation(wifi=(60, 12), lte=(10, 0))
    line.paths["lte"] = UplinkPath(throughput=Throughput(written_bps=10e6))
    assert line.run(120).moves == []


def test_sender_not_slowed_by_loss_needs_no_trial() -> None:
    line = SenderSimulation(wifi=(60, 12), lte=(100, 0), unslowed=True).run(120)
    assert line.moves == []
    assert kept_because(line.course, line.paths, line.now) == (
        "it is kept: it delivers 60 Mbit/s to senders that losses do not slow down, "
        "and the capacity of lte is not known"
    )


def test_sender_not_slowed_by_loss_moves_to_equal_clean_rate() -> None:
    line = SenderSimulation(wifi=(60, 12), lte=(100, 0), unslowed=True)
    line.paths["lte"] = UplinkPath(throughput=Throughput(written_bps=100e6))
    assert [each.prefer for each in line.run(25).moves] == ["lte"]


@pytest.mark.parametrize("limited", [True, False])
def test_only_a_path_limited_sender_measures_the_rate(limited: bool) -> None:
    seen = Throughput()
    for second in range(4):
        seen = uplink_health.throughput_after(seen, 7e6, limited, FIRST + second)
    assert seen.carries_bps(FIRST + 3) == (7e6 if limited else None)
    assert seen.delivered_bps(FIRST + 3) == 7e6
    assert seen.delivered_bps(FIRST + 3 + LATELY_S) == 0
    assert seen.carries_bps(FIRST + 3 + KNOWN_FOR_S) is None


@given(
    st.tuples(st.sampled_from([1, 5, 20, 60, 100]), st.integers(10, 40)),
    st.tuples(st.sampled_from([1, 5, 20, 60, 100]), st.integers(0, 2)),
    st.sampled_from([0.5, 3.0, 30.0, 1000.0]),
    st.booleans(),
)
def test_at_most_one_trial_is_slower_than_staying(
    wifi: tuple[float, int], lte: tuple[float, int], wants_mbps: float, unslowed: bool
) -> None:
    line = SenderSimulation(wifi, lte, wants_mbps, unslowed=unslowed).run(200)
    staying = min(wifi[0], wants_mbps)
    slower = [got for got in line.delivered if got < 0.9 * staying]
    assert len(slower) <= (0 if unslowed else 5)
    assert len(line.moves) <= 2 * MOST_MOVES
