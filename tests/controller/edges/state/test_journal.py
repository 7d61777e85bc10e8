# SPDX-License-Identifier: Apache-2.0
"""A journal keeps its last entries over restarts, power cuts and foreign bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.edges.state.journal import Journal

MOST = 5


def numbers(journal: Journal) -> list[int]:
    return [each["number"] for each in journal.entries()]


def test_last_entries_survive_a_restart_and_numbers_go_on(tmp_path: Path) -> None:
    path = tmp_path / "events"
    for run in range(4):
        journal = Journal(path, MOST)
        for step in range(4):
            journal.add(float(step), {"run": run})
    assert numbers(Journal(path, MOST)) == [16, 15, 14, 13, 12]
    assert Journal(path, MOST).entries()[0] == {"number": 16, "at": 3.0, "run": 3}
    assert path.stat().st_mode & 0o777 == 0o600


def test_file_holds_at_most_twice_the_entries(tmp_path: Path) -> None:
    path = tmp_path / "events"
    journal = Journal(path, MOST)
    for step in range(100):
        journal.add(float(step), {})
        assert len(path.read_text().splitlines()) <= 2 * MOST


@pytest.mark.parametrize("rest", ['{"number": 2, "at', "\x00\x00\n", '{"number": "2", "at": 1.0}\n', "[" * 100_000])
def test_half_written_line_is_ignored(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "events"
    Journal(path, MOST).add(1.0, {})
    with path.open("a") as file:
        file.write(rest)
    journal = Journal(path, MOST)
    journal.add(2.0, {}, sync=True)
    assert numbers(journal) == [2, 1]
    assert numbers(Journal(path, MOST)) == [2, 1]


def test_unwritable_file_loses_nothing_of_this_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "events").mkdir()
    journal = Journal(tmp_path / "events", MOST)
    journal.add(1.0, {})
    assert numbers(journal) == [1]
    assert "cannot be written" in caplog.text
