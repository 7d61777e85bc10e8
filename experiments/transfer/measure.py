# SPDX-License-Identifier: Apache-2.0
"""Run the downloads that the rows on file lack: a stopped run resumes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from experiments.laboratories import home
from experiments.transfer.plan import MODES, Plan, Setting, Task, expected_s
from experiments.transfer.rows import DIRECTORY, Row, Rows
from lab.processes.controller import OPENFLOW, TREE, Controller, controlled, pin_mode
from lab.results.provenance import provenance
from lab.stage import ovs
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from lab.traffic.web import WebFile, download, web_server
from topologies.home import RELAYS
from topologies.paper import LTE_LOSS_PERCENT, SERVER, PaperTopo

FILE = TREE / "topologies" / "paper.yaml"
RELAYED_TERMINAL, RELAY = "television", "tokyo"
RELAYED_MODES = {"plain": "single", "bicast": "bicast"}  # in mode off no uplink would be backup
NEAR_MS = 0.1  # each way between machines that the paper has on one host
SLOWEST_BPS = 500_000  # far below any measurement: slower is broken


class Downloads(Protocol):
    """A laboratory with a file to download."""

    def download(self, task: Task) -> Row: ...


@dataclass(frozen=True, slots=True)
class RelayedHome:
    """A terminal without MPTCP, whose gateway and relay carry its connections; rates and losses are the paper's."""

    home: home.RelayedHome
    file: WebFile

    def download(self, task: Task) -> Row:
        home, file = self.home, self.file
        home.pin(RELAYED_TERMINAL, RELAYED_MODES[task.how], "wifi")
        set_losses(home.net, task)
        home.await_relayed(RELAYED_TERMINAL)
        home.await_store(RELAYED_TERMINAL, RELAY, "wifi")
        home.forget()
        got = download(home.machine(RELAYED_TERMINAL), file.url, _timeout_s(file), mptcp=False)
        relayed = home.seen(RELAYED_TERMINAL) == RELAYS[RELAY]
        return Row(task, got.seconds, got.size_bytes, got.sha256 == file.sha256, relayed, provenance())


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
        set_losses(self.net, task)
        # Cached ssthresh and reordering would affect the next download.
        self.server.run("ip", "tcp_metrics", "flush")
        file = self.file
        got = download(self.net.machine("client"), file.url, _timeout_s(file))
        return Row(task, got.seconds, got.size_bytes, got.sha256 == file.sha256, got.mptcp, provenance())


def set_losses(net: Stage, task: Task) -> None:
    wifi = net.uplink("wifi")
    wifi.forward.set(loss_percent=task.up_percent)
    wifi.backward.set(loss_percent=task.down_percent)


def _timeout_s(file: WebFile) -> float:
    return file.size_bytes * 8 / SLOWEST_BPS


@contextmanager
def relayed_laboratory(setting: Setting, size_bytes: int) -> Iterator[RelayedHome]:
    control = setting.congestion_control
    with (
        home.relayed_home(relays=(RELAY,), congestion=control, congestion_control=control, delay_ms=NEAR_MS) as relayed,
        watched((relayed.controller.needed(), *ovs.needed()), DIRECTORY),
    ):
        lte = relayed.net.uplink("lte")
        for way in (lte.forward, lte.backward):
            way.set(loss_percent=LTE_LOSS_PERCENT)
        yield RelayedHome(relayed, relayed.web.offer("transfer.bin", size_bytes))


@contextmanager
def laboratory(setting: Setting, size_bytes: int) -> Iterator[Laboratory]:
    topology = PaperTopo(
        lte_backup=setting.lte_backup,
        congestion_control=setting.congestion_control,
        frames_lost=setting.frames_lost,
        one_machine=setting.network == "laptop",
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
        raised_for = relayed_laboratory if setting.network == "relay" else laboratory
        with raised_for(setting, size_bytes) as lab:
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
