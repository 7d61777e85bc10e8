# SPDX-License-Identifier: Apache-2.0
"""Load a variant: numbered datagrams, requests and iperf3, beside a sampler of the machine's stalls."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.peers.variants import Ends
from lab.processes.controller import LOOK_EVERY_S
from lab.processes.usage import TICKS_A_SECOND
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.traffic.numbered import PROGRAM as DATAGRAMS
from lab.traffic.streaming import till

REQUESTS = [sys.executable, str(Path(__file__).with_name("requests.py"))]
STALLS = [sys.executable, str(Path(__file__).with_name("stalls.py"))]
# The measuring programs must not wait for the measured ones. The link emulators have the same class.
REAL_TIME = ("chrt", "--fifo", "1")
ASK_PORT, IPERF_PORT = 7500, 5201
IPERF_WITHIN_S = 40.0
STALLED_SHARE = 0.1  # of a pause or an answer's time
IDLE_FIELDS = (3, 4)  # of /proc/stat's first line: idle and iowait

Span = tuple[float, float]  # of time.monotonic()


def disturbed(began: float, ended: float, stalls: Sequence[Span]) -> bool:
    """Return whether the machine's stalls take a tenth of this time. A stall's backlog counts as long as the stall."""
    overlaps = (min(ended, 2 * last - first) - max(began, first) for first, last in stalls)
    return sum(each for each in overlaps if each > 0) > STALLED_SHARE * (ended - began)


@dataclass(slots=True)
class Flow:
    """Numbered datagrams in one direction. Both counts are known after the flow."""

    pps: int
    sent: int = 0
    arrivals: list[tuple[int, float, float]] = field(default_factory=list)  # number, sent_at, received_at

    def lost(self, since: float, until: float) -> tuple[int, int]:
        """Return the lost and the sent datagrams of those sent in the span."""
        arrived = {number: sent_at for number, sent_at, _ in self.arrivals}
        if not arrived:
            return (each := round((until - since) * self.pps)), each
        lost = sent = 0
        at = min(sent_at - number / self.pps for number, sent_at in arrived.items())  # of the first
        for number in range(self.sent):
            at = arrived.get(number, at + 1 / self.pps)
            if since <= at < until:
                sent += 1
                lost += number not in arrived
        return lost, sent

    def gap_ms(self, since: float, until: float, stalls: Sequence[Span] = ()) -> float:
        """Return the longest undisturbed pause between arrivals in the span, beyond the sender's own."""
        interval_s = 1 / self.pps
        longest = 0.0
        before = since, -1, since - interval_s  # received, number and sent
        arrivals = sorted((at, number, sent) for number, sent, at in self.arrivals if since <= at < until)
        for after in (*arrivals, (until, -1, until)):
            pause = after[0] - before[0] - interval_s
            if min(before[1], after[1]) >= 0:
                pause -= max(0.0, after[2] - before[2] - (after[1] - before[1]) * interval_s)
            if pause > longest and not disturbed(before[0], after[0], stalls):
                longest = pause
            before = after
        return longest * 1000


@dataclass(slots=True)
class Answers:
    took: list[tuple[float, float]] = field(default_factory=list)  # asked_at, seconds

    def ms(self, since: float, until: float, stalls: Sequence[Span] = ()) -> list[float]:
        """Return the times of undisturbed requests that waited in the span."""
        waited = ((at, at + took) for at, took in self.took if at < until and at + took >= since)
        return [(end - at) * 1000 for at, end in waited if not disturbed(at, end, stalls)]


@contextmanager
def _told(process: subprocess.Popen[str], word: str) -> Iterator[subprocess.Popen[str]]:
    """Wait until the program prints this word; kill it after the block."""
    with process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != f"{word}\n":
                raise ExperimentFailed(f"{process.args!r} did not print {word!r}")
            yield process
        finally:
            process.kill()


def _started(machine: Machine, word: str, *words: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return _told(machine.popen([*REAL_TIME, *words], stdin=subprocess.PIPE, stderr=None, text=True), word)


@contextmanager
def both_ways(ends: Ends, port: int, pps: int, size: int) -> Iterator[tuple[Flow, Flow]]:
    """Run a flow up and one down; they are known after the block."""
    ways = ((ends.near, ends.far, ends.far_address), (ends.far, ends.near, ends.near_address))
    flows = Flow(pps), Flow(pps)
    with ExitStack() as running:
        receivers, senders = [], []
        for _, target, _ in ways:
            receivers.append(running.enter_context(_started(target, "ready", *DATAGRAMS, "receive", str(port))))
        for source, _, address in ways:
            words = (*DATAGRAMS, "send", address, str(port), str(pps), str(size))
            senders.append(running.enter_context(_started(source, "sending", *words)))
        yield flows
        for one, sender in zip(flows, senders, strict=True):
            one.sent = json.loads(sender.communicate("enough\n")[0])[0]
        for receiver in receivers:  # both wait for late datagrams at once
            assert receiver.stdin is not None
            receiver.stdin.write("enough\n")
            receiver.stdin.flush()
        for one, receiver in zip(flows, receivers, strict=True):
            one.arrivals += json.loads(receiver.communicate()[0])


@contextmanager
def asking(ends: Ends, rate_per_s: int) -> Iterator[Answers]:
    with (
        _started(ends.far, "ready", *ends.tcp, *REQUESTS, "answer", str(ASK_PORT)),
        _started(
            ends.near, "asking", *ends.tcp, *REQUESTS, "ask", ends.far_address, str(ASK_PORT), str(rate_per_s)
        ) as asker,
    ):
        answers = Answers()
        yield answers
        answers.took += json.loads(asker.communicate("enough\n")[0])


@contextmanager
def sampled_stalls() -> Iterator[list[Span]]:
    """Fill the list when the block ends."""
    process = subprocess.Popen(STALLS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with _told(process, "sampling"):
        stalls: list[Span] = []
        yield stalls
        stalls += json.loads(process.communicate("enough\n")[0])


class Iperf:
    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def mbps(self, seconds: int, *, up: bool) -> float:
        done = self._run("--time", str(seconds), *(() if up else ("--reverse",)))
        return float(done["sum_received"]["bits_per_second"]) / 1e6

    def flood_pps(self, size: int, seconds: int) -> float:
        """Return the packets a second that arrive while the sender sends as fast as it can."""
        return self._datagrams(size, seconds, "0") / seconds

    def cpu_s_per_gbit(self, size: int, seconds: int, pps: int) -> float:
        """Return the whole machine's processor time, with the traffic's programs, for the payload that arrives."""
        before = busy_s()
        arrived = self._datagrams(size, seconds, str(pps * size * 8))
        return (busy_s() - before) / (arrived * size * 8 / 1e9)

    def _datagrams(self, size: int, seconds: int, bps: str) -> int:
        words = ("--udp", "--bandwidth", bps, "--length", str(size), "--time", str(seconds))
        return max(1, int(self._run(*words)["sum_received"]["bytes"]) // size)

    def _run(self, *words: str) -> Any:
        ends = self._ends
        command = (*ends.tcp, "iperf3", "--client", ends.far_address, "--json", *words)
        told = json.loads(ends.near.run(*command, timeout_s=IPERF_WITHIN_S).stdout)
        if "error" in told:  # iperf3 still exits with 0
            raise ExperimentFailed(f"`{' '.join(command)}`: {told['error']}")
        return told["end"]


@contextmanager
def iperf(ends: Ends) -> Iterator[Iperf]:
    with ends.far.popen([*ends.tcp, "iperf3", "--server"], stdout=subprocess.DEVNULL) as server:
        try:
            while not ends.far.run("ss", "-Hltn", "sport", "=", f":{IPERF_PORT}").stdout:
                till(time.monotonic() + LOOK_EVERY_S)
            yield Iperf(ends)
        finally:
            server.kill()


def busy_s() -> float:
    """Return the processor time that the machine spent, in all its processors."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(ticks) - sum(ticks[each] for each in IDLE_FIELDS)) / TICKS_A_SECOND
