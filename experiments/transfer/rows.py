# SPDX-License-Identifier: Apache-2.0
"""The downloads on file, one line of CSV each, added as they come."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.transfer.plan import NETWORKS, Setting, Task
from lab.results import DOCS, RESULTS, provenance
from lab.stage.failure import ExperimentFailed

DIRECTORY = RESULTS / "transfer"  # also saves logs of dead processes
PUBLISHED = DOCS / "results" / "papers" / "002-downloads.csv"
YES = {False: "no", True: "yes"}
LOST = {False: "packets", True: "frames"}
HEADER = (
    "wifi_up_loss_percent", "wifi_down_loss_percent", "congestion_control", "lte_backup", "wifi_loses", "network",
    "mode", "run", "seconds", "bytes", "sha256_ok", "mptcp", *provenance.HEADER,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    task: Task
    seconds: float
    size_bytes: int
    sha256_ok: bool
    mptcp: bool
    origin: tuple[str, ...]  # date, commit, machine

    @property
    def good(self) -> bool:
        return self.sha256_ok and self.mptcp


class Rows:
    """Rows that this machine measured, in `file`, and rows published before, which stay as they are."""

    def __init__(self, file: Path, published: Path | None = None) -> None:
        self.file = file
        self._published = published

    def clear(self) -> None:
        self.file.unlink(missing_ok=True)

    def read(self) -> list[Row]:
        """Return all rows; a published one stands before, and in place of, the same row in `file`."""
        published = _read(self._published) if self._published else []
        return list(dict.fromkeys([*published, *_read(self.file)]))

    def append(self, row: Row) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.file.exists() or self.file.stat().st_size == 0:
            writer.writerow(HEADER)
        writer.writerow(_words(row))
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())

    def publish(self) -> list[Row]:
        """Add to the published rows what `file` has; return all."""
        rows = self.read()
        assert self._published is not None, "there is a file to publish to"
        self._published.parent.mkdir(parents=True, exist_ok=True)
        with self._published.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([HEADER, *map(_words, rows)])
        return rows


def _read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]  # a killed run may leave half a line
    if whole != text:
        file.write_text(whole, encoding="utf-8")
    header, *lines = list(csv.reader(io.StringIO(whole))) or [list(HEADER)]
    if tuple(header) != HEADER:
        raise ExperimentFailed(f"{file}: the first line differs from {','.join(HEADER)}; move the file away")
    return [_row(file, number, line) for number, line in enumerate(lines, 2)]


def _words(row: Row) -> tuple[object, ...]:
    task, setting = row.task, row.task.setting
    where = (task.up_percent, task.down_percent, setting.congestion_control, _word(setting.lte_backup))
    what = (LOST[setting.frames_lost], setting.network, task.how, task.number)
    found = (f"{row.seconds:.3f}", row.size_bytes, _word(row.sha256_ok), _word(row.mptcp))
    return (*where, *what, *found, *row.origin)


def _row(file: Path, number: int, line: list[str]) -> Row:
    try:
        up, down, control, backup, loses, network, how, run, seconds, size, sha256_ok, mptcp, *origin = line
        if len(origin) != len(provenance.HEADER):
            raise ValueError(f"{len(line)} values, expected {len(HEADER)}")
        if network not in ("paper", *NETWORKS):
            raise ValueError(f"found {network!r}, expected paper, {' or '.join(NETWORKS)}")
        setting = Setting(control, _truth(backup), _truth(loses, LOST), network)
        task = Task(setting, int(up), int(down), how, int(run))
        return Row(task, float(seconds), int(size), _truth(sha256_ok), _truth(mptcp), tuple(origin))
    except ValueError as error:
        raise ExperimentFailed(f"{file}:{number}: {error}; remove the line, or move the file away") from None


def _word(truth: bool) -> str:
    return YES[truth]


def _truth(word: str, words: Mapping[bool, str] = YES) -> bool:
    if word not in words.values():
        raise ValueError(f"found {word!r}, expected {words[True]} or {words[False]}")
    return word == words[True]
