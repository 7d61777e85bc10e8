# SPDX-License-Identifier: Apache-2.0
"""Every actor switches a live download, which arrives whole, and the figures are judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments import switching
from experiments.switching import CAMPAIGN
from experiments.switching.measure import Run, Switch, carry_out
from experiments.switching.plan import ACTORS, Actor, Plan
from experiments.switching.report import figures
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import Streamed
from tests.experiments.reports import reported

QUEUE = "128 KiB"
LATE = "on lte 3 of 900 packets left more than 5 ms late, the latest by 7.1 ms"


@pytest.mark.timed
@pytest.mark.parametrize("hand", ACTORS, ids=lambda hand: hand.name)
def test_a_switch_moves_a_live_download_intact(hand: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching.measure, "ATTEMPTS", 1)  # a stall of the machine does not change behaviour
    runs = list(carry_out(Plan("one", 1, 1, (hand,), (QUEUE,)), tmp_path))
    assert all(run.streamed.whole for run in runs)
    unswitched, switched = runs[0], runs[-1]
    assert (unswitched.switches, unswitched.priorities_received) == ((), 0)
    (switch,) = switched.switches
    assert switched.priorities_received == 2  # one for each path
    assert (switch.old, switch.new) == ("wifi", "lte")
    assert switch.first_data is not None
    assert switched.bps > 1e6


def streamed(*moments: float) -> Streamed:
    return Streamed(moments, [1000.0 * number for number in range(1, 1 + len(moments))], whole=True)


def a_run(switches: tuple[Switch, ...] = (), stalled: str = "", **others: object) -> Run:
    run = Run(ACTORS[0], QUEUE, 1, switches, streamed(0.0, 0.02, 0.06, 0.1), 0.0, 0.1, 2 * len(switches), stalled)
    return replace(run, **others)  # type: ignore[arg-type]


ONE = Switch("wifi", "lte", ordered=1.0, answered_after_s=0.01, priority=1.005, first_data=1.045, last_data=1.08)


def test_a_pause_lasts_from_one_read_to_the_next() -> None:
    assert streamed(0.0, 0.02, 0.3, 0.32).longest_pause_s() == pytest.approx(0.28)
    assert streamed(0.0, 0.02, 0.3, 0.32).longest_pause_s(since=0.1, until=0.2) == pytest.approx(0.28)
    assert streamed(0.0, 0.02, 0.3, 0.32).longest_pause_s(since=0.3) == pytest.approx(0.02)
    assert streamed(0.0, 0.02, 0.3, 0.32).longest_pause_s(until=0.02) == pytest.approx(0.02)


def test_each_promise_is_judged_by_its_measurement() -> None:
    late = replace(ONE, first_data=1.2)
    for switch, kept in ((ONE, True), (late, False)):
        told = {one.what.strip(): one for one in figures([a_run(), a_run((switch,))])}
        assert told["order to first data, wifi to lte, longest"].met is kept
        assert told["first MP_PRIO to first data, wifi to lte, longest"].value == pytest.approx(
            (switch.first_data - 1.005) * 1000  # type: ignore[operator]
        )
    told = {one.what.strip(): one for one in figures([a_run(), a_run((ONE,), priorities_received=1)])}
    assert told["MP_PRIO received of 2 in 1 switches"].met is False
    slow = a_run((ONE,), streamed=Streamed([0.0, 0.1], [0.0, 1000.0], whole=False))
    told = {one.what.strip(): one for one in figures([a_run(), slow])}
    assert told["throughput, of the same download left in peace"].met is False
    assert next(one for one in figures([a_run(), slow]) if "differ" in one.what).value == 1


def test_the_report_has_switches_that_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, late = Plan("some", 1, 1), a_run((replace(ONE, first_data=9.0),), stalled=LATE)
    assert len(reported(CAMPAIGN, plan, [a_run(), a_run((ONE,))], [late], tmp_path, capsys)) == 1
    with pytest.raises(ExperimentFailed, match="the machine stalled in every run"):
        CAMPAIGN.present(plan, [late], tmp_path, as_json=True)
