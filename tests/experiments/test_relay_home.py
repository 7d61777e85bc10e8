# SPDX-License-Identifier: Apache-2.0
"""Transfers at home are compared with the line's limit and with a lone user. Stalled runs do not count."""

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
def test_only_bicast_downloads_have_a_promise(of_limit: float, met: bool) -> None:
    runs = [run("bicast", of_limit), run("single", 9.0), run("bicast", 9.0, direction=UP)]
    (judged,) = [each for each in found(runs, "of the line's limit") if each.met is not None]
    assert judged.value == pytest.approx(of_limit)
    assert judged.met is met


def test_rates_are_compared_with_a_lone_user() -> None:
    (beside,) = found([run("bicast", 1.0), run(ALONE, 40.0)], "of one's who is")
    assert beside.value == pytest.approx(40.0)


def test_stalled_runs_do_not_count_and_broken_ones_do() -> None:
    assert found([run("bicast", 1.0, stalled="on core 20 ms")], "") == []
    (broken,) = found([run("bicast", 1.0, whole=False), run("bicast", 1.0)], "not what was sent")
    assert (broken.value, broken.met) == (1, False)
