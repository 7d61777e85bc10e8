# SPDX-License-Identifier: Apache-2.0
"""Upload from one to three terminals.

Data and acknowledgements share one half-duplex link. Only the effect of writes counts: no agents, no rule, no MPTCP.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from experiments.blocksize.plan import TERMINALS, Plan, Task
from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage import isolate, ovs
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from topologies.access_point import AIR_BPS, SERVERS, AccessPointTopo
from topologies.access_point import TERMINALS as TERMINAL_NAMES

FILE = TREE / "topologies" / "access_point.yaml"
FAR = "s64"  # 64 ms round trip
SERVER = SERVERS[FAR]
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
GOODPUT_BPS = AIR_BPS * PAYLOAD_BYTES / FRAME_BYTES  # without acknowledgements
WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Laboratory:
    net: Stage
    most: int  # terminals

    @property
    def server(self) -> Machine:
        return self.net.machine(FAR)

    def terminals(self, count: int) -> list[Machine]:
        return [self.net.machine(name) for name in TERMINAL_NAMES[:count]]

    def forget(self) -> None:
        for machine in (self.server, *self.terminals(self.most)):
            machine.run("ip", "tcp_metrics", "flush")

    def stalled(self) -> str:
        """Return the links stalled since the previous call."""
        found = {name: self.net.uplink(name).lateness() for name in ("air", FAR)}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalled)


@contextmanager
def laboratory(terminals: int, logs: Path) -> Iterator[Laboratory]:
    with (
        controlled(FILE) as controller,
        raised(AccessPointTopo(terminals=terminals), controller=OPENFLOW) as net,
        watched((controller.needed(), *ovs.needed()), logs),
    ):
        controller.await_steady()
        lab = Laboratory(net, terminals)
        for machine in lab.terminals(terminals):
            _await_reached(machine)
        yield lab


def _await_reached(terminal: Machine) -> None:
    deadline = time.monotonic() + WITHIN_S
    while terminal.run("ping", "-c", "1", "-W", "1", SERVER, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{SERVER} does not answer {terminal.name} within {WITHIN_S:.0f} s")


PROGRAM = [sys.executable, str(Path(__file__).with_name("upload.py"))]
PORT = 4300
ATTEMPTS = 3  # when the machine stalled


@dataclass(frozen=True, slots=True)
class Upload:
    """One terminal's upload, with samples at time.monotonic()."""

    size_bytes: int
    began: float
    ended: float
    retransmits: int  # segments
    cpu_s: float  # of its program
    moments: Sequence[float]
    window_segments: Sequence[float]
    unsent_bytes: Sequence[float]  # in the socket's buffer

    @property
    def bps(self) -> float:
        return self.size_bytes * 8 / (self.ended - self.began)


@dataclass(frozen=True, slots=True)
class Run:
    task: Task
    uploads: tuple[Upload, ...]
    stalled: str

    def __str__(self) -> str:
        each = " ".join(f"{one.bps / 1e6:.2f}" for one in self.uploads)
        told = f"{self.bps / 1e6:.2f} Mbit/s together, {each} each, Jain {self.jain:.3f}"
        return f"{self.task}: {told}, {self.retransmits} segments again, {self.unsent_bytes / 1e3:.0f} kB unsent"

    @property
    def bps(self) -> float:
        """Return the common rate, from the first beginning to the last end."""
        seconds = max(one.ended for one in self.uploads) - min(one.began for one in self.uploads)
        return sum(one.size_bytes for one in self.uploads) * 8 / seconds

    @property
    def jain(self) -> float:
        """Return Jain's index: 1 is equal, 1/n is all for one."""
        each = [one.bps for one in self.uploads]
        return sum(each) ** 2 / (len(each) * sum(bps**2 for bps in each))

    @property
    def spread_bps(self) -> float:
        each = [one.bps for one in self.uploads]
        return max(each) - min(each)

    @property
    def retransmits(self) -> int:
        return sum(one.retransmits for one in self.uploads)

    @property
    def unsent_bytes(self) -> float:
        return max(max(one.unsent_bytes, default=0.0) for one in self.uploads)


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    with laboratory(max(TERMINALS), logs) as lab:
        for task in plan.tasks:
            for _ in range(ATTEMPTS):
                run = run_upload(lab, task, plan.size_bytes)
                yield run
                if not run.stalled:
                    break


def run_upload(lab: Laboratory, task: Task, size_bytes: int) -> Run:
    lab.forget()
    slowest_s = 30 + 100 * task.terminals * size_bytes * 8 / 20e6  # slower means broken
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blocks-", dir=isolate.RUN_DIRECTORY)))
        receiver = _start(stack, lab.server, "receive", SERVER, str(PORT), str(task.terminals), str(size_bytes))
        _await(receiver, "listening")
        senders = []
        for machine in lab.terminals(task.terminals):
            what = (str(size_bytes), str(task.block_bytes), str(task.low_water_bytes), str(place / machine.name))
            senders.append((machine.name, _start(stack, machine, "send", SERVER, str(PORT), *what)))
        for _, sender in senders:
            _await(sender, "ready")
        lab.stalled()  # forget earlier stalls
        for _, sender in senders:
            _go(sender)
        deadline = time.monotonic() + slowest_s
        outcomes = {name: _outcome(name, sender, deadline) for name, sender in senders}
        stalled = lab.stalled()
        return Run(task, tuple(_upload(size_bytes, told, place / name) for name, told in outcomes.items()), stalled)


def _start(stack: ExitStack, machine: Machine, *words: str) -> subprocess.Popen[str]:
    process: subprocess.Popen[str] = machine.popen([*PROGRAM, *words], stdin=subprocess.PIPE, stderr=None, text=True)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _await(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    output = process.stdout.readline().strip()
    if output != word:
        raise ExperimentFailed(f"upload.py printed {output!r}, expected {word!r}; its error is above")


def _go(process: subprocess.Popen[str]) -> None:
    stdin: IO[str] | None = process.stdin
    assert stdin is not None
    stdin.write("go\n")
    stdin.flush()


def _outcome(name: str, process: subprocess.Popen[str], deadline: float) -> dict[str, float]:
    try:
        output, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ExperimentFailed(f"{name}: the upload did not end in time, so something is broken") from None
    if process.returncode != 0 or not output:
        raise ExperimentFailed(f"{name}: upload.py ended with {process.returncode}; its error is above")
    told: dict[str, float] = json.loads(output)
    return told


def _upload(size_bytes: int, result: dict[str, float], trace: Path) -> Upload:
    samples = array("d", trace.read_bytes())
    return Upload(
        size_bytes,
        result["began"],
        result["ended"],
        int(result["again"]),
        result["cpu_s"],
        samples[::3],
        samples[1::3],
        samples[2::3],
    )
