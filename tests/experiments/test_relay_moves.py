# SPDX-License-Identifier: Apache-2.0
"""Judge downloads that policies may move by the same downloads kept on Wi-Fi."""

from __future__ import annotations

import pytest

from experiments.relay.moves.measure import Run
from experiments.relay.moves.plan import DIRECT, RELAYED
from experiments.relay.moves.report import figures


def run(route: str, moved_mbit_s: float, *, seconds: int = 20, moves: int = 2, stalled: str = "") -> Run:
    return Run(route, "cubic", 10, 2_000_000, seconds, 10e6, moved_mbit_s * 1e6, "wifi", moves, stalled)


@pytest.mark.parametrize(
    ("seconds", "moved", "met"), [(20, 8.0, True), (20, 7.9, False), (60, 9.0, True), (60, 8.9, False)]
)
def test_a_move_costs_no_more_than_its_trial(seconds: int, moved: float, met: bool) -> None:
    (judged,) = [each for each in figures([run(DIRECT, moved, seconds=seconds)]) if each.met is not None]
    assert judged.value == pytest.approx(moved / 10)
    assert judged.met is met


def test_a_download_that_was_not_moved_is_not_judged() -> None:
    assert not [each for each in figures([run(DIRECT, 1.0, moves=0)]) if each.met is not None]


def test_the_least_ratio_of_each_route_is_printed() -> None:
    runs = [run(RELAYED, 8.0), run(RELAYED, 12.0), run(DIRECT, 9.0), run(DIRECT, 1.0, stalled="on wifi 20 ms")]
    least = {each.what.partition(",")[0]: each.value for each in figures(runs) if "least" in each.what}
    assert least == pytest.approx({RELAYED: 0.8, DIRECT: 0.9})
