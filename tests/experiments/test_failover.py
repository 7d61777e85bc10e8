# SPDX-License-Identifier: Apache-2.0
"""A transfer survives the death of its path on the other one, and its pause is judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments import failover
from experiments.failover import CAMPAIGN
from experiments.failover.measure import Run, carry_out
from experiments.failover.plan import BLACK, DOWN, DOWNLOAD, PROTECTIONS, UPLOAD, Plan, Protection, Task
from experiments.failover.report import figures
from lab.links.emulator import STALL_MS
from lab.traffic.streaming import Streamed
from tests.experiments.reports import reported

DEFAULT, SETUP, FAILOVER, BOTH, ORPHANED = PROTECTIONS[1:]
FINITE_S = 30.0
LATE = f"on lte 3 of 900 packets left more than {STALL_MS} ms late, the latest by 7.1 ms"


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure once: a stall of the machine does not change behaviour."""
    monkeypatch.setattr(failover.measure, "ATTEMPTS", 1)


@pytest.mark.timed
@pytest.mark.parametrize(
    ("fault", "direction", "way"),
    [(BLACK, DOWNLOAD, FAILOVER), (BLACK, UPLOAD, BOTH), (DOWN, UPLOAD, DEFAULT)],
    ids=lambda each: each.name if isinstance(each, Protection) else each,
)
def test_a_transfer_survives_its_path(fault: str, direction: str, way: Protection, tmp_path: Path) -> None:
    run = list(carry_out([Task(fault, direction, way, 1)], tmp_path))[-1]
    assert run.streamed.whole
    assert run.moved_bytes > 100_000
    assert 0 < run.pause_s < FINITE_S
    assert (run.no_progress_ms is not None) is way.armed


@pytest.mark.timed
def test_each_run_restores_the_lab_for_the_next(tmp_path: Path) -> None:
    tasks = [Task(DOWN, UPLOAD, ORPHANED, 1), Task(BLACK, DOWNLOAD, BOTH, 1)]
    runs = [run for run in carry_out(tasks, tmp_path) if run.streamed.whole and run.moved_bytes]
    assert [run.task for run in runs] == tasks


def a_run(way: Protection, pause_s: float, stalled: str = "", number: int = 1, whole: bool = True) -> Run:
    died = 10.0
    reads = Streamed([9.9, died + pause_s, died + pause_s + 0.01], [1.0, 2.0, 3.0], whole)
    return Run(Task(BLACK, DOWNLOAD, way, number), reads, died, 1, None, stalled)


def test_the_best_protection_is_judged_beside_the_default() -> None:
    runs = [a_run(DEFAULT, 0.05), a_run(SETUP, 0.6), a_run(BOTH, 0.1), a_run(ORPHANED, 0.01)]
    told = {one.what.strip(): one for one in figures(runs)}
    median, worst = (told[f"the best way ({BOTH.name}), {which}"] for which in ("median", "worst"))
    assert (median.value, median.met, worst.met) == (pytest.approx(200), True, True)
    later = {one.what.strip(): one for one in figures([*runs, a_run(BOTH, 0.6, number=2)])}
    assert later[f"the best way ({BOTH.name}), worst"].met is False
    assert [one.value for one in later.values() if one.what.endswith(f"{DEFAULT.name}, median")] == [pytest.approx(150)]


def test_a_differing_byte_breaks_the_promise() -> None:
    told = {one.what: one for one in figures([a_run(BOTH, 0.1), a_run(BOTH, 0.1, number=2, whole=False)])}
    assert (told["transfers whose bytes differ"].value, told["transfers whose bytes differ"].met) == (1, False)


def test_the_report_has_runs_that_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [a_run(DEFAULT, 0.9), replace(a_run(BOTH, 0.1), no_progress_ms=150)]
    late = a_run(BOTH, 2.0, stalled="on lte 3 of 900 packets left late")
    assert len(reported(CAMPAIGN, Plan("some", 1), good, [late], tmp_path, capsys)) == 2
