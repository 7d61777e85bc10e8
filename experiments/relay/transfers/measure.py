# SPDX-License-Identifier: Apache-2.0
"""Make a plan's transfers, direct and relayed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from controller.model.text import counted
from controller.policy.paths.leg_throughput import Leg, throughput
from controller.policy.paths.relays import Candidate, relayed
from experiments.relay.transfers.lanes import LINKS, RATE_BPS, Lane, LanesTopo
from experiments.relay.transfers.plan import WINDOW_BYTES, Plan, Task, choose_tasks, sweep_tasks
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import raised

# A relay on a busy processor: it runs for 20 of every 400 ms
#
# SIGSTOP and SIGCONT, because on a busy machine a busy loop would not use up a shared cgroup quota.

STOPPED_S, RUNNING_S = 0.38, 0.02


@contextmanager
def busy_processor(pid: int) -> Iterator[None]:
    over = threading.Event()
    others = threading.Thread(target=_take_turns, args=(pid, over), daemon=True)
    others.start()
    try:
        yield
    finally:
        over.set()
        others.join()


def _take_turns(pid: int, over: threading.Event) -> None:
    while not over.is_set():
        os.kill(pid, signal.SIGSTOP)
        over.wait(STOPPED_S)
        os.kill(pid, signal.SIGCONT)
        over.wait(RUNNING_S)


PROGRAM = (sys.executable, str(Path(__file__).with_name("hose.py")))
DIRECT_PORT, RELAYED_PORT, RELAY_PORT = "5001", "5002", "5003"
ECHOES = 7
PATIENCE_S = 400.0

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@dataclass(frozen=True, slots=True)
class Rates:
    bps: float  # from before the connection to the last byte
    steady_bps: float  # in the second half


@dataclass(frozen=True, slots=True)
class Transfer:
    sending: Process
    receiving: Process

    def go(self) -> None:
        assert self.sending.stdin is not None
        self.sending.stdin.write("go\n")
        self.sending.stdin.flush()

    def finish(self) -> Rates:
        (began_ns,) = _numbers(self.sending)
        half_ns, half_bytes, ended_ns, size_bytes = _numbers(self.receiving)
        whole, rest = (size_bytes, ended_ns - began_ns), (size_bytes - half_bytes, ended_ns - half_ns)
        return Rates(*(8e9 * count / took_ns for count, took_ns in (whole, rest)))


@contextmanager
def transferring(lane: Lane, window_bytes: int, size_bytes: int, crowd: bool) -> Iterator[tuple[Transfer, Transfer]]:
    """Yield the direct and the relayed transfer, which wait for go()."""
    with _endpoints(lane, window_bytes, size_bytes, crowd) as (direct, relayed, start):
        for role in ("sender", "relay", "receiver"):
            lane.machine(role).run("ip", "tcp_metrics", "flush")
        transfers = [
            Transfer(start("sender", "send", *target, str(size_bytes)), receiving)
            for target, receiving in zip(_targets(lane), (direct, relayed), strict=True)
        ]
        for each in transfers:
            _await_ready(each.sending)
        yield transfers[0], transfers[1]


def overhead_ms(lane: Lane, window_bytes: int, crowd: bool) -> float:
    """Return what this relay adds to a round trip: both legs together are as long as the direct path."""
    with _endpoints(lane, window_bytes, 0, crowd) as (_, _, start):
        direct_ms, relayed_ms = (
            median(_numbers(start("sender", "ask", *target, str(ECHOES)))) / 1e6 for target in _targets(lane)
        )
    return max(0.0, relayed_ms - direct_ms)


def _targets(lane: Lane) -> tuple[tuple[str, str], tuple[str, str]]:
    return (lane.address("direct"), DIRECT_PORT), (lane.address("near"), RELAY_PORT)


@contextmanager
def _endpoints(lane: Lane, window_bytes: int, size_bytes: int, crowd: bool) -> Iterator[tuple[Process, Process, Start]]:
    """Yield both receivers, direct and relayed, and a function that starts more programs."""
    with ExitStack() as running:

        def start(role: str, *words: str) -> Process:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": None}
            process: Process = lane.machine(role).popen([*PROGRAM, *words], text=True, **pipes)
            running.callback(process.communicate)
            running.callback(process.kill)
            return process

        window, far = str(window_bytes), lane.address("far")
        direct = start("receiver", "receive", lane.address("direct"), DIRECT_PORT, window, str(size_bytes))
        relayed = start("receiver", "receive", far, RELAYED_PORT, window, str(size_bytes))
        relay = start("relay", "relay", lane.address("near"), RELAY_PORT, window, far, RELAYED_PORT)
        for each in (direct, relayed, relay):
            _await_ready(each)
        place: AbstractContextManager[None] = busy_processor(relay.pid) if crowd else nullcontext()
        with place:
            yield direct, relayed, start


def _await_ready(process: Process) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise ExperimentFailed(f"`{process.args!r}` ended with {process.wait()}; its error is above")


def _numbers(process: Process) -> list[int]:
    output, _ = process.communicate(timeout=PATIENCE_S)
    if process.returncode != 0 or not output:
        raise ExperimentFailed(f"`{process.args!r}` ended with {process.returncode}; its error is above")
    return [int(word) for word in output.split()]


# Transfers: several lanes at once, direct and relayed over separate links

LANES = 12
SWEEPING_LANES = 2  # up to 100 Mbit/s each
ATTEMPTS = 2  # when the machine stalled
OVERHEAD_LEG_MS = 20.0


@dataclass(frozen=True, slots=True)
class Run:
    task: Task
    size_bytes: int
    overhead_ms: float  # measured before
    direct: Rates
    relayed: Rates
    stalled: str

    @property
    def gain(self) -> float:
        """Return the gain in percent, as paper 001 defines it."""
        return 100 * (self.relayed.bps / self.direct.bps - 1)

    @property
    def predicted_direct_bps(self) -> float:
        return throughput(self._leg("direct"), self.task.window_bytes).bps

    @property
    def predicted_relayed_bps(self) -> float:
        candidate = Candidate(self.task.relay, self._leg("near"), self._leg("far"), overhead_ms=self.overhead_ms)
        found = relayed(self._leg("direct"), candidate, self.task.window_bytes)
        assert found is not None
        return found.bps

    @property
    def off(self) -> tuple[float, float]:
        """Return the deviation from steady rates in percent: direct, relayed."""
        return (
            100 * (self.predicted_direct_bps / self.direct.steady_bps - 1),
            100 * (self.predicted_relayed_bps / self.relayed.steady_bps - 1),
        )

    def _leg(self, link: str) -> Leg:
        return Leg(self.task.rtts_ms[link], self.task.loss(link), RATE_BPS)

    def __str__(self) -> str:
        rates = f"direct {self.direct.bps / 1e6:.2f}, relayed {self.relayed.bps / 1e6:.2f} Mbit/s ({self.gain:+.0f} %)"
        off = " and ".join(f"{each:+.0f} %" for each in self.off)
        return f"{self.task}, {self.task.rtts_ms['direct']:.0f} ms: {rates}; predictions off by {off}"


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    with raised(LanesTopo(LANES)) as net:
        lanes = [Lane(net, number) for number in range(LANES)]
        overheads_ms = overheads(lanes[0])
        for _ in range(plan.rounds):
            tasks = choose_tasks(plan.pairs, overheads_ms)
            for name in dict.fromkeys(task.set for task in tasks):  # transfers of one set take about as long
                of_set = [(task, plan.size_bytes) for task in tasks if task.set == name]
                yield from _batches(lanes, of_set, overheads_ms)
            yield from _batches(lanes[:SWEEPING_LANES], sweep_tasks(), overheads_ms)


def overheads(lane: Lane) -> dict[bool, float]:
    """Return overheads of a busy relay and an idle one."""
    for name in LINKS:
        lane.set(name, 2 * OVERHEAD_LEG_MS if name == "direct" else OVERHEAD_LEG_MS, 0.0)
    return {crowd: overhead_ms(lane, WINDOW_BYTES, crowd) for crowd in (False, True)}


def _batches(
    lanes: Sequence[Lane], tasks: Sequence[tuple[Task, int]], overheads_ms: dict[bool, float]
) -> Iterator[Run]:
    for _ in range(ATTEMPTS):
        again = []
        for first in range(0, len(tasks), len(lanes)):
            for run in batch(lanes, tasks[first : first + len(lanes)], overheads_ms):
                yield run
                again += [(run.task, run.size_bytes)] if run.stalled else []
        tasks = again


def batch(lanes: Sequence[Lane], tasks: Sequence[tuple[Task, int]], overheads_ms: dict[bool, float]) -> Iterator[Run]:
    with ExitStack() as transfers:
        pairs = []
        for lane, (task, size_bytes) in zip(lanes, tasks, strict=False):
            for name in LINKS:
                lane.set(name, task.rtts_ms[name], task.loss(name))
            entered = transferring(lane, task.window_bytes, size_bytes, task.busy)
            pairs.append(transfers.enter_context(entered))
        missed = [lane.missed() for lane in lanes]
        for lane in lanes:
            lane.stalled()  # forget earlier stalls
        for each in (transfer for pair in pairs for transfer in pair):
            each.go()
        for lane, before, (task, size_bytes), pair in zip(lanes, missed, tasks, pairs, strict=False):
            direct, by_relay = (transfer.finish() for transfer in pair)
            count = lane.missed() - before
            stalled = lane.stalled() or (f"{counted(count, 'packets')} were not read by the links" if count else "")
            yield Run(task, size_bytes, overheads_ms[task.busy], direct, by_relay, stalled)
