"""What was measured, a line a download, kept as CSV: a run that was stopped goes on from what is there."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from experiments.transfer.plan import Setting, Task
from lab.stage.failure import ExperimentFailed

HEADER = (
    "wifi_up_loss_percent", "wifi_down_loss_percent", "congestion_control", "lte_backup", "mode", "run",
    "seconds", "bytes", "sha256_ok", "mptcp",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    task: Task
    seconds: float
    size_bytes: int
    sha256_ok: bool
    mptcp: bool

    @property
    def good(self) -> bool:
        """Whether it is a measurement of anything: what came is what was sent, and by MPTCP."""
        return self.sha256_ok and self.mptcp


class Rows:
    def __init__(self, file: Path) -> None:
        self.file = file

    def clear(self) -> None:
        self.file.unlink(missing_ok=True)

    def read(self) -> list[Row]:
        if not self.file.exists():
            return []
        text = self.file.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]  # a run that was killed may have left half a line
        if whole != text:
            self.file.write_text(whole, encoding="utf-8")
        header, *lines = list(csv.reader(io.StringIO(whole))) or [list(HEADER)]
        if tuple(header) != HEADER:
            raise ExperimentFailed(f"{self.file}: its first line is not {','.join(HEADER)}; move the file away")
        return [self._row(number, line) for number, line in enumerate(lines, 2)]

    def append(self, row: Row) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        task, text = row.task, io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.file.exists() or self.file.stat().st_size == 0:
            writer.writerow(HEADER)
        place = (task.up_percent, task.down_percent, task.setting.congestion_control)
        what = (*place, _word(task.setting.lte_backup), task.how, task.number)
        writer.writerow((*what, f"{row.seconds:.3f}", row.size_bytes, _word(row.sha256_ok), _word(row.mptcp)))
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())

    def _row(self, number: int, line: list[str]) -> Row:
        try:
            up, down, congestion_control, backup, how, run, seconds, size, sha256_ok, mptcp = line
            setting = Setting(congestion_control, _truth(backup))
            task = Task(setting, int(up), int(down), how, int(run))
            return Row(task, float(seconds), int(size), _truth(sha256_ok), _truth(mptcp))
        except ValueError as error:
            raise ExperimentFailed(f"{self.file}:{number}: {error}; remove the line, or move the file away") from None


def _word(truth: bool) -> str:
    return "yes" if truth else "no"


def _truth(word: str) -> bool:
    if word not in ("yes", "no"):
        raise ValueError(f"{word!r} stands where yes or no was expected")
    return word == "yes"
