# SPDX-License-Identifier: Apache-2.0
"""Run the upload programs and read their results."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine

PROGRAM = [sys.executable, str(Path(__file__).with_name("upload.py"))]
PORT = 5201
TIMEOUT_S = 20.0


class End:
    """The program of one end. It starts at go(), and leaves its samples (doubles) when it ends."""

    def __init__(self, machine: Machine, numbers: Path, *words: str) -> None:
        self._name, self._numbers = machine.name, numbers
        argv = [*PROGRAM, *words, str(numbers)]
        self._process = machine.popen(argv, stdin=subprocess.PIPE, stderr=None, text=True)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read_output, daemon=True).start()

    def await_ready(self) -> None:
        try:
            output = self._lines.get(timeout=TIMEOUT_S)
        except queue.Empty:
            output = ""
        if output != "ready\n":
            raise ExperimentFailed(f"{self._name}: upload.py was not ready within {TIMEOUT_S:.0f} s")

    def go(self) -> None:
        self._write_line("go\n")

    def finish(self) -> array[float]:
        self._write_line("enough\n")
        if self._process.wait(TIMEOUT_S) != 0:
            raise ExperimentFailed(f"{self._name}: upload.py ended with {self._process.returncode}")
        return array("d", self._numbers.read_bytes())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _write_line(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word)
        self._process.stdin.flush()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


@contextmanager
def uploading(
    terminals: Mapping[Machine, str], servers: Mapping[str, Machine], connections: int, control: str, place: Path
) -> Iterator[tuple[list[End], list[End]]]:
    with ExitStack() as running:

        def started(machine: Machine, *words: str) -> End:
            end = End(machine, place / machine.name, *words)
            running.callback(end.end)
            return end

        serving = [started(machine, "serve", address, str(PORT)) for address, machine in servers.items()]
        sending = [
            started(machine, "send", address, str(PORT), str(connections), control)
            for machine, address in terminals.items()
        ]
        for end in (*serving, *sending):
            end.await_ready()
        yield sending, serving


@dataclass(frozen=True, slots=True)
class Received:
    """A terminal's delivery. `before` has the bytes before each of `moments` (time.monotonic()), and their total."""

    moments: Sequence[float]
    before: Sequence[float]

    def bps(self, since: float, until: float) -> float:
        return (self._by(until) - self._by(since)) * 8 / (until - since)

    def _by(self, moment: float) -> float:
        return self.before[bisect_left(self.moments, moment)]

    def reaches(self, bps: float, since: float, over_s: float) -> float | None:
        """Return the time from `since` until the rate was `bps` or more for `over_s`; None: never."""
        for moment in self.moments[bisect_left(self.moments, since + over_s) :]:
            if self.bps(moment - over_s, moment) >= bps:
                return moment - since
        return None


def received(reads: Sequence[float], addresses: Sequence[str]) -> list[Received]:
    found: dict[float, tuple[list[float], list[float]]] = {
        float(each.rpartition(".")[2]): ([], [0.0]) for each in addresses
    }
    for moment, source, size in sorted(zip(reads[::3], reads[1::3], reads[2::3], strict=True)):
        moments, before = found[source]
        moments.append(moment)
        before.append(before[-1] + size)
    return [Received(*each) for each in found.values()]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A terminal's TCP state within a span, over all connections."""

    srtt_ms: float  # mean
    min_rtt_ms: float
    cwnd: float  # mean per connection
    retransmits: int  # segments so far


def sampled(samples: Sequence[float], connections: int, since: float, until: float) -> Sampled:
    rows = list(zip(*(samples[column::5] for column in range(5)), strict=True))
    inside = [row for row in rows if since <= row[0] <= until]
    if len(inside) < 2 * connections:
        raise ExperimentFailed(f"an upload has only {len(inside)} samples of its sockets in {until - since:.0f} s")
    return Sampled(
        mean(row[1] for row in inside) / 1000,
        min(row[2] for row in rows) / 1000,
        mean(row[3] for row in inside),
        int(sum(row[4] for row in inside[-connections:])),
    )
