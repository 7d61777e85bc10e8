# SPDX-License-Identifier: Apache-2.0
"""Run the uploads."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

from experiments.air.endpoints import Received, Sampled, received, sampled, uploading
from experiments.air.laboratory import Laboratory, laboratory
from experiments.air.plan import NOBODY, Plan, Task
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.traffic.streaming import till
from topologies.access_point import AIR_BPS, SERVERS, TERMINALS, address

ATTEMPTS = 3  # when the machine stalled
JOIN_FRACTION, COUNT_FRACTION = 0.3, 0.5  # of a run: the newcomer starts; counting starts
FAIR_SHARE = 0.9  # a newcomer that gets this part of a fair share has its share
FAIR_FOR_S = 0.5  # if it lasts for this time
PING_EVERY_S = 0.1
PING_TOOK = re.compile(r" time=([\d.]+) ms")


@dataclass(frozen=True, slots=True)
class Run:
    task: Task
    seconds: float  # of the whole run
    bps: tuple[float, ...]  # of each terminal
    sampled: tuple[Sampled, ...]
    least_rtt_ms: tuple[float, ...]  # of each path, without queueing
    ping_ms: float  # median of the first terminal; NaN: no answer
    newcomer_s: float | None  # until it had its share; None: never, or no newcomer
    busy: float  # fraction of link time, as if without contention
    capped: int  # terminals with enforced caps in mid-run
    stalled: str

    @property
    def total_bps(self) -> float:
        return sum(self.bps)

    @property
    def jain(self) -> float:
        squares = sum(each**2 for each in self.bps)
        return self.total_bps**2 / (len(self.bps) * squares) if squares else 0.0

    @property
    def ratio(self) -> float:
        """Return the terminals' mean of srtt / least RTT."""
        ratios = [one.srtt_ms / least for one, least in zip(self.sampled, self.least_rtt_ms, strict=True)]
        return sum(ratios) / len(ratios)

    @property
    def srtt_ms(self) -> float:
        return sum(one.srtt_ms for one in self.sampled) / len(self.sampled)

    @property
    def cwnd(self) -> float:
        return sum(one.cwnd for one in self.sampled) / len(self.sampled)

    @property
    def retransmits(self) -> int:
        return sum(one.retransmits for one in self.sampled)

    @property
    def is_held(self) -> bool:
        return self.capped == (0 if self.task.variant.enforcer == NOBODY else self.task.scene.terminals)

    def __str__(self) -> str:
        told = (
            f"{self.total_bps / 1e6:.2f} Mbit/s, Jain {self.jain:.3f}, srtt {self.srtt_ms:.1f} ms (x{self.ratio:.1f})"
        )
        newcomer = "" if self.newcomer_s is None else f", newcomer {self.newcomer_s:.1f} s"
        held = "" if self.is_held else f"; HELD at {self.capped} terminals"
        return (
            f"{self.task.scene}; {self.task.variant}: {told}, {self.retransmits} sent again, ping {self.ping_ms:.1f} ms"
            f", air busy {100 * self.busy:.0f} %"
            f"{newcomer}{held}"
        )


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    for enforcer, those in groupby(plan.tasks, lambda task: task.variant.enforcer):
        with laboratory(enforcer, logs) as lab:
            for task in those:
                yield from _until_counted(lab, task, plan.seconds)


def _until_counted(lab: Laboratory, task: Task, seconds: float) -> Iterator[Run]:
    for _ in range(ATTEMPTS):
        run = run_upload(lab, task, seconds)
        yield run
        if not run.stalled:
            break


def run_upload(lab: Laboratory, task: Task, seconds: float) -> Run:
    scene = task.scene
    lab.await_quiet()
    lab.set_scene(scene)
    lab.set_rule(task.variant)
    lab.forget()
    machines = lab.terminals[: scene.terminals]
    targets = {machine: SERVERS[scene.server(number)] for number, machine in enumerate(machines)}
    servers = {SERVERS[name]: each for name, each in lab.servers.items() if SERVERS[name] in targets.values()}
    with tempfile.TemporaryDirectory(prefix="air-", dir=isolate.RUN_DIRECTORY) as place:
        control = task.variant.congestion_control
        with uploading(targets, servers, scene.connections, control, Path(place)) as (sending, serving):
            lab.spoilt()  # forget earlier stalls
            began = time.monotonic()
            joined, counted, ended = (began + part * seconds for part in (JOIN_FRACTION, COUNT_FRACTION, 1.0))
            for end in sending[: max(1, scene.terminals - 1)]:
                end.go()
            if scene.terminals > 1:
                till(joined)
                sending[-1].go()
            till(counted)
            before = lab.carried_bits()
            with _pinging(machines[0], targets[machines[0]]) as took_ms:
                till((counted + ended) / 2)
                capped = lab.capped_terminals()
                till(ended)
            busy = (lab.carried_bits() - before) / (AIR_BPS * (time.monotonic() - counted))
            stalled = lab.spoilt()
            samples = [end.finish() for end in sending]
            reads = array("d")
            for end in serving:
                reads.extend(end.finish())
    come = received(reads, [address(name) for name in TERMINALS[: scene.terminals]])
    uploads = [sampled(each, scene.connections, counted, ended) for each in samples]
    return Run(
        task,
        seconds,
        tuple(one.bps(counted, ended) for one in come),
        tuple(uploads),
        tuple(_least_rtts(task, uploads)),
        median(took_ms) if took_ms else float("nan"),
        _newcomer_s(come, joined, counted, ended),
        busy,
        capped,
        stalled,
    )


def _least_rtts(task: Task, uploads: Sequence[Sampled]) -> Iterator[float]:
    """Yield the least RTT of each terminal's server: a connection that never saw an empty path does not know it."""
    servers = [task.scene.server(number) for number in range(len(uploads))]
    for server in servers:
        yield min(one.min_rtt_ms for one, at in zip(uploads, servers, strict=True) if at == server)


def _newcomer_s(come: Sequence[Received], joined: float, counted: float, ended: float) -> float | None:
    if len(come) < 2:
        return None
    share_bps = sum(one.bps(counted, ended) for one in come) / len(come)
    return come[-1].reaches(FAIR_SHARE * share_bps, joined, FAIR_FOR_S)


@contextmanager
def _pinging(machine: Machine, server: str) -> Iterator[list[float]]:
    """The list is complete after the block."""
    took_ms: list[float] = []
    words = ["ping", "-i", str(PING_EVERY_S), server]
    process = machine.popen(words, stderr=subprocess.STDOUT, text=True)
    try:
        yield took_ms
    finally:
        process.terminate()
        output, _ = process.communicate()
    if "PING" not in output:
        raise ExperimentFailed(f"{machine.name}: `{' '.join(words)}` printed {output.strip()!r}")
    took_ms.extend(float(each) for each in PING_TOOK.findall(output))
