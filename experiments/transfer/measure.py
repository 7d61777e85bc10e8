# SPDX-License-Identifier: Apache-2.0
"""Run the downloads, each a line of CSV: a stopped run resumes."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from experiments.transfer.plan import MODES, Plan, Setting, Task
from lab.processes.controller import OPENFLOW, TREE, controlled, pin_mode
from lab.results import RESULTS
from lab.stage import ovs
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import raised
from lab.stage.watch import watched
from lab.traffic.web import download, web_server
from topologies.paper import SERVER, PaperTopo

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
        whole = text[: text.rfind("\n") + 1]  # a killed run may leave half a line
        if whole != text:
            self.file.write_text(whole, encoding="utf-8")
        header, *lines = list(csv.reader(io.StringIO(whole))) or [list(HEADER)]
        if tuple(header) != HEADER:
            raise ExperimentFailed(f"{self.file}: the first line differs from {','.join(HEADER)}; move the file away")
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
        raise ValueError(f"found {word!r}, expected yes or no")
    return word == "yes"


FILE = TREE / "topologies" / "paper.yaml"
DIRECTORY = RESULTS / "transfer"  # also saves logs of dead processes
SLOWEST_BPS = 500_000  # far below any measurement: slower is broken


def carry_out(tasks: Iterable[Task], size_bytes: int) -> Iterator[Row]:
    """Yield a row per task, in order; consecutive tasks of one setting share a laboratory."""
    for setting, those in groupby(tasks, lambda task: task.setting):
        yield from _in_one_laboratory(setting, those, size_bytes)


def _in_one_laboratory(setting: Setting, tasks: Iterable[Task], size_bytes: int) -> Iterator[Row]:
    topology = PaperTopo(lte_backup=setting.lte_backup, congestion_control=setting.congestion_control)
    with (
        controlled(FILE) as controller,
        raised(topology, controller=OPENFLOW) as net,
        watched((controller.needed(), *ovs.needed()), DIRECTORY),
    ):
        controller.await_steady()
        client, server, wifi = net.machine("client"), net.machine("server"), net.uplink("wifi")
        with web_server(server, SERVER) as web:
            file = web.offer("transfer.bin", size_bytes)
            for task in tasks:
                pin_mode(controller.client, MODES[task.how])
                wifi.forward.set(loss_percent=task.up_percent)
                wifi.backward.set(loss_percent=task.down_percent)
                # Cached ssthresh and reordering would affect the next download.
                server.run("ip", "tcp_metrics", "flush")
                got = download(client, file.url, timeout_s=size_bytes * 8 / SLOWEST_BPS)
                yield Row(task, got.seconds, got.size_bytes, got.sha256 == file.sha256, got.mptcp)


def measure_missing(plan: Plan, rows: Rows) -> None:
    done = {row.task for row in rows.read() if row.good}
    missing = [task for task in plan.tasks if task not in done]
    if done:
        _print_line(f"{len(done)} of {len(plan.tasks)} downloads are in {rows.file} already")
    for number, row in enumerate(carry_out(missing, plan.size_bytes), 1):
        rows.append(row)
        _print_line(f"{number}/{len(missing)}  {_describe(row)}")


def _describe(row: Row) -> str:
    task = row.task
    what = f"{task.setting}; Wi-Fi loses {task.up_percent} % up, {task.down_percent} % down; {task.how:6}"
    wrong = "" if row.good else f"  NOT COUNTED: sha256 {'good' if row.sha256_ok else 'WRONG'}, MPTCP {row.mptcp}"
    return f"{what}  {row.seconds:7.2f} s{wrong}"


def _print_line(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
