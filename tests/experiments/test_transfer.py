# SPDX-License-Identifier: Apache-2.0
"""A corner of the paper's grid runs end to end: real downloads, rows, tables, plots, and continuation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from experiments.transfer import measure
from experiments.transfer.plan import Plan, Setting, Task
from experiments.transfer.report import Results
from experiments.transfer.rows import Row, Rows
from lab.results.provenance import provenance

pytestmark = pytest.mark.slow

SIZE_BYTES = 3_000_000
CUBIC = Setting("cubic", True)
TASKS = tuple(Task(CUBIC, 10, 0, how, 1) for how in ("plain", "bicast"))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Measure the rows once for all tests."""
    rows = Rows(tmp_path_factory.mktemp("transfer") / "corner.csv")
    measure.measure_missing(Plan("corner", SIZE_BYTES, TASKS), rows)
    return rows


def test_each_mode_delivers_the_whole_file_over_mptcp(rows: Rows) -> None:
    found = rows.read()
    assert [row.task for row in found] == list(TASKS)
    assert [(row.size_bytes, row.sha256_ok, row.mptcp) for row in found] == [(SIZE_BYTES, True, True)] * 2
    fastest = SIZE_BYTES * 8 / 100e6
    assert all(fastest < row.seconds < 60 for row in found)


def test_existing_rows_are_not_measured_again(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Task] = []

    def none(tasks: Iterable[Task], size_bytes: int) -> Iterator[Row]:
        asked.extend(tasks)
        return iter(())

    monkeypatch.setattr(measure, "carry_out", none)
    another = Task(CUBIC, 10, 0, "bicast", 2)
    measure.measure_missing(Plan("corner", SIZE_BYTES, (*TASKS, another)), rows)
    assert asked == [another]


def test_a_download_without_mptcp_is_repeated(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Rows(tmp_path / "rows.csv")
    again.append(Row(TASKS[0], 1.0, SIZE_BYTES, True, False, provenance()))
    fresh = Row(TASKS[0], 2.0, SIZE_BYTES, True, True, provenance())
    monkeypatch.setattr(measure, "carry_out", lambda tasks, size_bytes: iter([fresh] if TASKS[0] in tasks else []))
    measure.measure_missing(Plan("corner", SIZE_BYTES, TASKS[:1]), again)
    results = Results(again.read(), SIZE_BYTES)
    reading = results.reading(CUBIC, (10, 0), "plain")
    assert reading is not None
    assert (reading.runs, results.bad) == ((2.0,), 1)
