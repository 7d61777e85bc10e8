# SPDX-License-Identifier: Apache-2.0
"""What transfers at home come to: of the line's limit, of one's who is left alone; and what counts nowhere."""

from __future__ import annotations

import pytest

from experiments.relay.home.measure import LINE_BPS, Run
from experiments.relay.home.plan import ALONE, DOWN, UP, Task
from experiments.relay.home.report import figures
from lab.results.figures import Figure

BYTES = 10_000_000
AT_LIMIT_S = BYTES * 8 / LINE_BPS


def run(how: str, of_limit: float, *, direction: str = DOWN, whole: bool = True, stalled: str = "") -> Run:
    return Run(Task(how, direction, BYTES), of_limit * AT_LIMIT_S, whole, stalled)


def found(runs: list[Run], what: str) -> list[Figure]:
    return [each for each in figures(runs) if what in each.what]


@pytest.mark.parametrize(("of_limit", "met"), [(1.25, True), (1.26, False)])
def test_the_promise_is_of_downloads_in_copies(of_limit: float, met: bool) -> None:
    runs = [run("bicast", of_limit), run("single", 9.0), run("bicast", 9.0, direction=UP)]
    (judged,) = [each for each in found(runs, "of the line's limit") if each.met is not None]
    assert judged.value == pytest.approx(of_limit)
    assert judged.met is met


def test_rates_stand_beside_one_s_who_is_left_alone() -> None:
    (beside,) = found([run("bicast", 1.0), run(ALONE, 40.0)], "of one's who is")
    assert beside.value == pytest.approx(40.0)


def test_a_run_in_which_the_machine_stalled_counts_nowhere_and_a_broken_one_breaks_a_promise() -> None:
    assert found([run("bicast", 1.0, stalled="on core 20 ms")], "") == []
    (broken,) = found([run("bicast", 1.0, whole=False), run("bicast", 1.0)], "not what was sent")
    assert (broken.value, broken.met) == (1, False)
