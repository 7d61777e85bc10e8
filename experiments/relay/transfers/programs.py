"""The programs of a transfer at a lane's machines, and what they have told when it is over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from experiments.relay.transfers.crowding import crowded
from experiments.relay.transfers.lanes import Lane
from lab.stage.failure import ExperimentFailed

PROGRAM = (sys.executable, str(Path(__file__).with_name("hose.py")))
DIRECT_PORT, RELAYED_PORT, RELAY_PORT = "5001", "5002", "5003"
QUESTIONS = 7
PATIENCE_S = 400.0

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@dataclass(frozen=True, slots=True)
class Moved:
    bps: float  # from before it was connected to the last byte
    steady_bps: float  # since half of it had come


@dataclass(frozen=True, slots=True)
class Transfer:
    sending: Process
    receiving: Process

    def go(self) -> None:
        assert self.sending.stdin is not None
        self.sending.stdin.write("go\n")
        self.sending.stdin.flush()

    def finish(self) -> Moved:
        (began_ns,) = _told(self.sending)
        half_ns, half_bytes, ended_ns, size_bytes = _told(self.receiving)
        whole, rest = (size_bytes, ended_ns - began_ns), (size_bytes - half_bytes, ended_ns - half_ns)
        return Moved(*(8e9 * count / took_ns for count, took_ns in (whole, rest)))


@contextmanager
def transferring(lane: Lane, window_bytes: int, size_bytes: int, crowd: bool) -> Iterator[tuple[Transfer, Transfer]]:
    """Directly and by the relay, both waiting to be told."""
    with _ends(lane, window_bytes, size_bytes, crowd) as (direct, relayed, start):
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
    """What this relay adds to a round trip, where both legs together are as long as the direct way."""
    with _ends(lane, window_bytes, 0, crowd) as (_, _, start):
        direct_ms, relayed_ms = (
            median(_told(start("sender", "ask", *target, str(QUESTIONS)))) / 1e6 for target in _targets(lane)
        )
    return max(0.0, relayed_ms - direct_ms)


def _targets(lane: Lane) -> tuple[tuple[str, str], tuple[str, str]]:
    return (lane.address("direct"), DIRECT_PORT), (lane.address("near"), RELAY_PORT)


@contextmanager
def _ends(lane: Lane, window_bytes: int, size_bytes: int, crowd: bool) -> Iterator[tuple[Process, Process, Start]]:
    """Both receivers, with the relay between, and how to start more."""
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
        place: AbstractContextManager[None] = crowded(relay.pid) if crowd else nullcontext()
        with place:
            yield direct, relayed, start


def _await_ready(process: Process) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise ExperimentFailed(f"`{process.args!r}` ended with {process.wait()}; its error is above")


def _told(process: Process) -> list[int]:
    """All that it says until it ends."""
    said, _ = process.communicate(timeout=PATIENCE_S)
    if process.returncode != 0 or not said:
        raise ExperimentFailed(f"`{process.args!r}` ended with {process.returncode}; its error is above")
    return [int(word) for word in said.split()]
