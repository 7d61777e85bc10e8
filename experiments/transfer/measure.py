# SPDX-License-Identifier: Apache-2.0
"""Run the downloads that the rows on file lack: a stopped run resumes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from experiments.transfer.plan import MODES, Plan, Setting, Task, expected_s
from experiments.transfer.rows import DIRECTORY, Row, Rows
from lab.processes.controller import OPENFLOW, TREE, Controller, controlled, pin_mode
from lab.results.provenance import provenance
from lab.stage import ovs
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from lab.traffic.web import WebFile, download, web_server
from topologies.paper import SERVER, PaperTopo

FILE = TREE / "topologies" / "paper.yaml"
SLOWEST_BPS = 500_000  # far below any measurement: slower is broken


@dataclass(frozen=True, slots=True)
class Laboratory:
    """The paper's laboratory, with a file to download."""

    net: Stage
    controller: Controller
    file: WebFile

    @property
    def server(self) -> Machine:
        return self.net.machine("server")

    def download(self, task: Task) -> Row:
        pin_mode(self.controller.client, MODES[task.how])
        wifi = self.net.uplink("wifi")
        wifi.forward.set(loss_percent=task.up_percent)
        wifi.backward.set(loss_percent=task.down_percent)
        # Cached ssthresh and reordering would affect the next download.
        self.server.run("ip", "tcp_metrics", "flush")
        file = self.file
        got = download(self.net.machine("client"), file.url, timeout_s=file.size_bytes * 8 / SLOWEST_BPS)
        return Row(task, got.seconds, got.size_bytes, got.sha256 == file.sha256, got.mptcp, provenance())


@contextmanager
def laboratory(setting: Setting, size_bytes: int) -> Iterator[Laboratory]:
    topology = PaperTopo(
        lte_backup=setting.lte_backup,
        congestion_control=setting.congestion_control,
        frames_lost=setting.frames_lost,
    )
    with (
        controlled(FILE) as controller,
        raised(topology, controller=OPENFLOW) as net,
        watched((controller.needed(), *ovs.needed()), DIRECTORY),
    ):
        controller.await_steady()
        with web_server(net.machine("server"), SERVER) as web:
            yield Laboratory(net, controller, web.offer("transfer.bin", size_bytes))


def carry_out(tasks: Iterable[Task], size_bytes: int) -> Iterator[Row]:
    """Yield a row per task, in order; consecutive tasks of one setting share a laboratory."""
    for setting, those in groupby(tasks, lambda task: task.setting):
        with laboratory(setting, size_bytes) as lab:
            yield from map(lab.download, those)


def missing(plan: Plan, rows: Iterable[Row]) -> list[Task]:
    done = {row.task for row in rows if row.good}
    return [task for task in plan.tasks if task not in done]


def measure_missing(plan: Plan, rows: Rows) -> None:
    known = rows.read()
    tasks = missing(plan, known)
    if len(tasks) < len(plan.tasks):
        _print_line(f"{len(plan.tasks) - len(tasks)} of {len(plan.tasks)} downloads are measured already")
    for number, row in enumerate(carry_out(tasks, plan.size_bytes), 1):
        rows.append(row)
        known.append(row)
        left = duration(expected_s(tasks[number:], plan.size_bytes, times(known)))
        _print_line(f"{number}/{len(tasks)}  {_describe(row)}  {left} left")


def times(rows: Iterable[Row]) -> list[tuple[Task, float]]:
    return [(row.task, row.seconds) for row in rows if row.good]


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _describe(row: Row) -> str:
    task = row.task
    what = f"{task.setting}; Wi-Fi loses {task.up_percent} % up, {task.down_percent} % down; {task.how:6}"
    wrong = "" if row.good else f"  NOT COUNTED: sha256 {'good' if row.sha256_ok else 'WRONG'}, MPTCP {row.mptcp}"
    return f"{what}  {row.seconds:7.2f} s{wrong}"


def _print_line(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
