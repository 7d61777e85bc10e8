# SPDX-License-Identifier: Apache-2.0
"""Uploads in blocks share a real access point, and their rates are compared with paper 003."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.blocksize import CAMPAIGN
from experiments.blocksize.measure import GOODPUT_BPS, Run, Upload, laboratory, run_upload
from experiments.blocksize.plan import MOST_BYTES, TRACED_BYTES, Plan, Task
from experiments.blocksize.report import figures
from lab.results.figures import Figure
from tests.experiments.reports import reported

SIZE_BYTES = 600_000
MARK_BYTES = 8192
SEGMENT_BYTES = 1 << 16  # the kernel fills one before it checks the mark again
LATE = "on the air 3 of 900 packets left more than 15 ms late, the latest by 27.1 ms"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    tasks = Task(1, 128, 0), Task(1, MOST_BYTES, MARK_BYTES), Task(3, MOST_BYTES, 0)
    with laboratory(3, tmp_path_factory.mktemp("blocksize")) as lab:
        return [run_upload(lab, task, SIZE_BYTES) for task in tasks]


@pytest.mark.timed
def test_uploads_arrive_below_the_rate_of_the_access_point(runs: list[Run]) -> None:
    assert [len(run.uploads) for run in runs] == [1, 1, 3]
    for run in runs:
        assert 0 < run.bps < GOODPUT_BPS
        assert 1 / 3 < run.jain <= 1


@pytest.mark.timed
def test_the_sampled_window_grows_from_its_initial_size(runs: list[Run]) -> None:
    for one in (upload for run in runs for upload in run.uploads):
        assert list(one.moments) == sorted(one.moments)
        assert one.window_segments[0] < max(one.window_segments)


@pytest.mark.timed
def test_a_mark_limits_the_unsent_bytes_of_a_large_write(runs: list[Run]) -> None:
    _, marked, free = runs
    assert marked.unsent_bytes <= MARK_BYTES + SEGMENT_BYTES < free.unsent_bytes


def an_upload(mbit_s: float, began: float = 100.0) -> Upload:
    ended = began + SIZE_BYTES * 8 / (mbit_s * 1e6)
    return Upload(SIZE_BYTES, began, ended, 2, 0.1, [began, ended], [10.0, 40.0], [5000.0, 90_000.0])


def a_run(task: Task, *mbit_s: float, stalled: str = "") -> Run:
    return Run(task, tuple(map(an_upload, mbit_s)), stalled)


def judged(*runs: Run) -> dict[str, Figure]:
    return {one.what.strip(): one for one in figures(runs)}


def test_the_total_rate_spans_first_start_to_last_end() -> None:
    run = Run(Task(2, 32, 0), (an_upload(8.0), an_upload(8.0, began=100.6)), "")  # two uploads of 0.6 s in sequence
    assert run.bps == pytest.approx(8e6)
    assert run.spread_bps == pytest.approx(0)


def test_the_papers_best_is_compared_with_the_best_measured() -> None:
    those = judged(a_run(Task(1, 32, 0), 10), a_run(Task(1, 131072, 0), 16), a_run(Task(1, MOST_BYTES, 0), 20))
    assert those["writes of 128 KB to 512 KB, the paper's best: of the best here"].value == pytest.approx(80)
    assert those["writes of 8 MB, which fall in the paper: of the best here"].value == pytest.approx(100)
    theirs = [one for what, one in those.items() if what.startswith("paper 003")]
    assert [(one.value, one.n, one.met) for one in theirs] == [(6, 0, None), (66, 0, None)]


@pytest.mark.slow
def test_the_report_has_each_upload_that_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [a_run(Task(3, block, 0), 5, 6, 7) for block in TRACED_BYTES] + [a_run(Task(1, MOST_BYTES, MARK_BYTES), 15)]
    late = a_run(Task(2, 128, 0), 1, 2, stalled=LATE)
    rows = reported(CAMPAIGN, Plan("short", SIZE_BYTES, 4, 1), good, [late], tmp_path, capsys)
    assert len(rows) == 10
    assert rows[1][:6] == ["3", "128", "0", "2", "6.000", rows[0][5]]
