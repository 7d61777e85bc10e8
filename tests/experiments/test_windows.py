# SPDX-License-Identifier: Apache-2.0
"""The server's window is sampled while it sends, and compared between plain and copied acknowledgements."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.windows import CAMPAIGN
from experiments.windows.measure import Run, carry_out
from experiments.windows.plan import Plan
from experiments.windows.report import figures, read, wider
from tests.experiments.reports import reported


def one(down: int, how: str, number: int, *windows: int) -> Run:
    return Run(down, how, number, 8.5, tuple((0.2 * at, segments) for at, segments in enumerate(windows)))


RUNS = [
    one(0, how, number, *windows)
    for number in (1, 2, 3)
    for how, windows in (("plain", (10, 20 + number)), ("bicast", (10, 40 + number)))
]


def test_rows_are_read_as_they_were_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = reported(CAMPAIGN, Plan("made up", 1, (0,), 3), RUNS, [], tmp_path, capsys)
    assert rows[:2] == [["0", "plain", "1", "8.500", "0.00", "10"], ["0", "plain", "1", "8.500", "0.20", "21"]]
    assert read(tmp_path / "made up-samples.csv") == RUNS
    assert read(tmp_path / "none.csv") == []


def test_windows_are_compared_pair_by_pair() -> None:
    assert wider(RUNS) == (3, 3, pytest.approx(1 / 8))
    assert wider([one(0, "plain", 1, 9), one(0, "bicast", 1, 9), one(1, "bicast", 1, 99)]) == (0, 1, pytest.approx(1))
    found = {each.what: each.value for each in figures(RUNS)}
    assert found["0 % lost down, plain: window"] == 16
    assert found["  chance of so much wider a window without an effect"] == pytest.approx(1 / 20)


@pytest.mark.slow
def test_the_window_of_a_real_download_is_sampled(tmp_path: Path) -> None:
    plain, bicast = carry_out(Plan("short", 10_000_000, (0,), 1), tmp_path)
    assert (plain.how, bicast.how) == ("plain", "bicast")
    for run in (plain, bicast):
        assert len(run.samples) >= 2 and max(segments for _, segments in run.samples) > 10
