# SPDX-License-Identifier: Apache-2.0
"""Make the uploads of a plan, by one to three terminals at the access point of topologies/access_point.py.

What they send waits in one queue for an air that they share with what comes back. The controller forwards; it has no
agents and its rule is off: what is measured is what writes do. There is no MPTCP either."""

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
FAR = "s64"  # 64 ms there and back
SERVER = SERVERS[FAR]
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
GOODPUT_BPS = AIR_BPS * PAYLOAD_BYTES / FRAME_BYTES  # that the air lets through, but for acknowledgements
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
        """What TCP remembers of uploads before."""
        for machine in (self.server, *self.terminals(self.most)):
            machine.run("ip", "tcp_metrics", "flush")

    def stalled(self) -> str:
        """Which links the machine has held up since this was last asked; empty: none."""
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
    """Until the gateway knows its MAC, and it the gateway's."""
    deadline = time.monotonic() + WITHIN_S
    while terminal.run("ping", "-c", "1", "-W", "1", SERVER, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{SERVER} does not answer {terminal.name} within {WITHIN_S:.0f} s")


PROGRAM = [sys.executable, str(Path(__file__).with_name("upload.py"))]
PORT = 4300
ATTEMPTS = 3  # while the machine stalls


@dataclass(frozen=True, slots=True)
class Upload:
    """Of one terminal. Moments are of time.monotonic(); each sample has one, and what was so then."""

    size_bytes: int
    began: float
    ended: float
    again: int  # segments that were sent again
    cpu_s: float  # that its program took
    moments: Sequence[float]
    window_segments: Sequence[float]
    unsent_bytes: Sequence[float]  # that the socket had taken

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
        return f"{self.task}: {told}, {self.again} segments again, {self.unsent_bytes / 1e3:.0f} kB unsent"

    @property
    def bps(self) -> float:
        """Of all together, from the first one's beginning to the last one's end."""
        seconds = max(one.ended for one in self.uploads) - min(one.began for one in self.uploads)
        return sum(one.size_bytes for one in self.uploads) * 8 / seconds

    @property
    def jain(self) -> float:
        """Jain's index of what each terminal got: 1 is equal, 1/n is all for one."""
        each = [one.bps for one in self.uploads]
        return sum(each) ** 2 / (len(each) * sum(bps**2 for bps in each))

    @property
    def apart_bps(self) -> float:
        """Between the terminal that got most and the one that got least."""
        each = [one.bps for one in self.uploads]
        return max(each) - min(each)

    @property
    def again(self) -> int:
        return sum(one.again for one in self.uploads)

    @property
    def unsent_bytes(self) -> float:
        """The most that waited in any terminal's socket."""
        return max(max(one.unsent_bytes, default=0.0) for one in self.uploads)


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    """Those in which the machine stalled are among them."""
    with laboratory(max(TERMINALS), logs) as lab:
        for task in plan.tasks:
            for _ in range(ATTEMPTS):
                run = uploaded(lab, task, plan.size_bytes)
                yield run
                if not run.stalled:
                    break


def uploaded(lab: Laboratory, task: Task, size_bytes: int) -> Run:
    lab.forget()
    slowest_s = 30 + 100 * task.terminals * size_bytes * 8 / 20e6  # slower is broken
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blocks-", dir=isolate.RUN_DIRECTORY)))
        receiver = _begun(stack, lab.server, "receive", SERVER, str(PORT), str(task.terminals), str(size_bytes))
        _await(receiver, "listening")
        senders = []
        for machine in lab.terminals(task.terminals):
            what = (str(size_bytes), str(task.block_bytes), str(task.low_water_bytes), str(place / machine.name))
            senders.append((machine.name, _begun(stack, machine, "send", SERVER, str(PORT), *what)))
        for _, sender in senders:
            _await(sender, "ready")
        lab.stalled()  # from here on it counts
        for _, sender in senders:
            _say(sender)
        deadline = time.monotonic() + slowest_s
        said = {name: _outcome(name, sender, deadline) for name, sender in senders}
        stalled = lab.stalled()
        return Run(task, tuple(_upload(size_bytes, told, place / name) for name, told in said.items()), stalled)


def _begun(stack: ExitStack, machine: Machine, *words: str) -> subprocess.Popen[str]:
    process: subprocess.Popen[str] = machine.popen([*PROGRAM, *words], stdin=subprocess.PIPE, stderr=None, text=True)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _await(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if said != word:
        raise ExperimentFailed(f"upload.py said {said!r} where {word!r} was expected; its error is above")


def _say(process: subprocess.Popen[str]) -> None:
    stdin: IO[str] | None = process.stdin
    assert stdin is not None
    stdin.write("go\n")
    stdin.flush()


def _outcome(name: str, process: subprocess.Popen[str], deadline: float) -> dict[str, float]:
    try:
        said, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ExperimentFailed(f"{name}: the upload is not over after so long that something is broken") from None
    if process.returncode != 0 or not said:
        raise ExperimentFailed(f"{name}: upload.py ended with {process.returncode}; its error is above")
    told: dict[str, float] = json.loads(said)
    return told


def _upload(size_bytes: int, told: dict[str, float], trace: Path) -> Upload:
    samples = array("d", trace.read_bytes())
    return Upload(
        size_bytes,
        told["began"],
        told["ended"],
        int(told["again"]),
        told["cpu_s"],
        samples[::3],
        samples[1::3],
        samples[2::3],
    )
