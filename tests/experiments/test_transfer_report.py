# SPDX-License-Identifier: Apache-2.0
"""The plan, the paper's tables, the rows on file, the limit and the verdicts need no laboratory."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.transfer import report
from experiments.transfer.measure import HEADER, Row, Rows
from experiments.transfer.plan import CORNERS, PROMISED, SETTINGS, Setting, Task
from experiments.transfer.report import Results, limit_bps, verdicts
from lab.stage.failure import ExperimentFailed

CUBIC, CUBIC_BOTH, BBR, BBR_BOTH = SETTINGS
SIZE_BYTES = 50_000_000


def row(setting: Setting, cell: tuple[int, int], how: str, seconds: float, number: int = 1) -> Row:
    return Row(Task(setting, *cell, how, number), seconds, SIZE_BYTES, sha256_ok=True, mptcp=True)


def test_rows_are_read_as_written(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "there" / "rows.csv")
    assert rows.read() == []
    written = [
        row(CUBIC, (10, 5), "plain", 22.125, 3),
        Row(Task(BBR_BOTH, 0, 5, "bicast", 1), 4.5, 17, sha256_ok=False, mptcp=False),
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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "the first line differs"),
        (",".join(HEADER) + "\n1,2,cubic,maybe,plain,1,2.0,3,yes,yes\n", "rows.csv:2: found 'maybe'"),
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
    bad = Row(Task(CUBIC, *PROMISED, "plain", 9), 1.0, 5, sha256_ok=False, mptcp=True)
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
