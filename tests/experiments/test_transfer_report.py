# SPDX-License-Identifier: Apache-2.0
"""The plan, the paper's tables, the rows on file, the limit and the verdicts need no laboratory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from experiments.paper import paper002
from experiments.transfer import report
from experiments.transfer.plan import (
    CORNERS,
    FRAMES,
    PROMISED,
    RELAY,
    SETTINGS,
    Plan,
    Setting,
    Task,
    expected_s,
    full,
)
from experiments.transfer.report import Results, limit_bps, verdicts
from experiments.transfer.rows import HEADER, Row, Rows
from lab.stage.failure import ExperimentFailed

CUBIC, CUBIC_BOTH, BBR, BBR_BOTH = SETTINGS
SIZE_BYTES = 50_000_000
HEAD = ",".join(HEADER) + "\n"
ORIGIN = ("2026-11-27", "1.2.0", "2 cores")


def row(setting: Setting, cell: tuple[int, int], how: str, seconds: float, number: int = 1) -> Row:
    return Row(Task(setting, *cell, how, number), seconds, SIZE_BYTES, True, True, ORIGIN)


def test_rows_are_read_as_written(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "there" / "rows.csv")
    assert rows.read() == []
    written = [
        row(CUBIC, (10, 5), "plain", 22.125, 3),
        Row(Task(BBR_BOTH, 0, 5, "bicast", 1), 4.5, 17, False, False, ORIGIN),
        row(FRAMES, (2, 1), "plain", 45.0),
        row(RELAY, (10, 5), "bicast", 61.0),
    ]
    for each in written:
        rows.append(each)
    assert rows.read() == written
    rows.clear()
    assert rows.read() == []


def test_a_partial_last_line_is_dropped(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows.csv")
    first, second = row(CUBIC, (0, 0), "plain", 4.0), row(CUBIC, (0, 0), "bicast", 5.0)
    rows.append(first)
    with rows.file.open("a") as file:
        file.write("10,5,cub")
    assert rows.read() == [first]
    rows.append(second)
    assert rows.read() == [first, second]


def test_published_rows_count_and_gain_what_is_measured_here(tmp_path: Path) -> None:
    published, here = tmp_path / "docs" / "rows.csv", tmp_path / "rows.csv"
    before, now = row(CUBIC, (0, 0), "plain", 4.0), row(CUBIC, (0, 0), "bicast", 5.0)
    Rows(published).append(before)
    rows = Rows(here, published)
    rows.append(now)
    assert rows.publish() == rows.read() == Rows(published).read() == [before, now]
    assert Rows(here).read() == [now]


def test_the_whole_plan_covers_the_papers_grid_and_repeats_its_corners() -> None:
    counted = Counter((task.setting, task.cell, task.how) for task in full().tasks)
    assert {cell for setting, cell, _ in counted if setting == CUBIC} == set(paper002.seconds("plain"))
    assert {counted[CUBIC, corner, how] for corner in CORNERS for how in ("plain", "bicast")} == {5}
    assert len(counted) == 132 + 2 * 6 + 5 * 8


def test_a_missing_download_is_listed_with_its_time() -> None:
    tasks = tuple(Task(CUBIC, *cell, "plain", 1) for cell in CORNERS)
    done = [row(CUBIC, (0, 0), "plain", 8.44)]  # twice the paper's 42.2 s for ten times the bytes
    measured = [(each.task, each.seconds) for each in done]
    assert expected_s(tasks[:1], SIZE_BYTES, measured) == pytest.approx(8.44 + 3)
    assert expected_s(tasks[3:], SIZE_BYTES, measured) == pytest.approx(2 * 14.14 + 3)
    text = report.planned(Plan("corners", SIZE_BYTES, tasks), done)
    assert "Downloads of 50 MB: 4, about 1 min. Missing: 3, about 1 min." in text
    assert [line.split() for line in text.splitlines()[-2:]] == [["0", "1/1", "0/1"], ["10", "0/1", "0/1"]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "the first line differs"),
        (f"{HEAD}1,2,cubic,maybe,packets,paper,plain,1,2.0,3,yes,yes,today,1,here\n", "rows.csv:2: found 'maybe'"),
        (f"{HEAD}1,2,cubic,yes,bits,paper,plain,1,2.0,3,yes,yes,today,1,here\n", "rows.csv:2: found 'bits'"),
        (f"{HEAD}1,2,cubic,yes,packets,moon,plain,1,2.0,3,yes,yes,today,1,here\n", "rows.csv:2: found 'moon'"),
        (f"{HEAD}1,2,cubic,yes,packets,paper,plain,1,2.0,3,yes,yes,today\n", "rows.csv:2: 13 values, expected 15"),
    ],
)
def test_a_foreign_file_is_refused_and_kept(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(ExperimentFailed, match=sentence):
        Rows(file).read()
    assert file.read_text() == text


def test_a_cell_is_the_median_of_its_good_rows_with_spread() -> None:
    rows = [row(CUBIC, PROMISED, "plain", seconds, number) for number, seconds in enumerate((9.0, 5.0, 6.0))]
    bad = Row(Task(CUBIC, *PROMISED, "plain", 9), 1.0, 5, False, True, ORIGIN)
    results = Results([*rows, bad], SIZE_BYTES)
    reading = results.reading(CUBIC, PROMISED, "plain")
    assert reading is not None
    assert (reading.seconds, reading.least, reading.most, reading.n, results.bad) == (6.0, 5.0, 9.0, 3, 1)
    assert results.ratio(CUBIC, PROMISED) is None
    assert "6.0 [5.0-9.0 of 3]" in report.text(results)
    assert "1 downloads are left out" in report.text(results)


@pytest.mark.parametrize(("seconds", "met", "word"), [(6.5, True, "MET "), (6.6, False, "NOT MET")])
def test_cubic_is_judged_by_the_ratio_at_one_corner(seconds: float, met: bool, word: str) -> None:
    rows = [row(CUBIC, PROMISED, "plain", 10.0), row(CUBIC, PROMISED, "bicast", seconds)]
    results = Results(rows, SIZE_BYTES)
    cubic, *others = verdicts(results)
    assert (cubic.met, cubic.n, cubic.paper) == (met, 1, pytest.approx(61.3 / 141.4))
    assert [other.met for other in others] == [None] * 3
    lines = report.text(results).splitlines()[-4:]
    assert lines[0].startswith(word) and "paper 0.43" in lines[0]
    assert all(line.startswith("NOT MEASURED") for line in lines[1:])


def test_bbr_is_judged_by_its_worst_cell_against_the_limit() -> None:
    allowed = SIZE_BYTES * 8 / limit_bps(BBR)
    good = [row(BBR, cell, "bicast", allowed * 1.1) for cell in CORNERS[:3]]
    *_, bbr, _ = verdicts(Results(good, SIZE_BYTES))
    assert bbr.met is True
    *_, bbr, _ = verdicts(Results([*good, row(BBR, CORNERS[3], "bicast", allowed * 1.3)], SIZE_BYTES))
    assert (bbr.met, bbr.where, bbr.measured) == (False, CORNERS[3], pytest.approx(1.3))
