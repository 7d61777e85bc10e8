# SPDX-License-Identifier: Apache-2.0
"""Stream between two machines while a test changes the paths."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.stage import isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine

PROGRAM = [sys.executable, str(Path(__file__).with_name("stream.py"))]
PORT = 4100
TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 60.0  # for bytes in flight


@dataclass(frozen=True, slots=True)
class Streamed:
    """The received bytes so far (`sizes`) at each of `moments` (time.monotonic())."""

    moments: Sequence[float]
    sizes: Sequence[float]
    whole: bool  # every byte arrived, in order

    def bps(self, since: float, until: float) -> float:
        return (self._received_by(until) - self._received_by(since)) * 8 / (until - since)

    def longest_pause_s(self, since: float = 0.0, until: float = float("inf")) -> float:
        """Return the longest pause that overlaps the span."""
        pauses = [later - sooner for sooner, later in pairwise(self.moments) if later > since and sooner < until]
        return max(pauses, default=0.0)

    def _received_by(self, moment: float) -> float:
        at = bisect_right(self.moments, moment)
        return self.sizes[at - 1] if at else 0.0


class Stream:
    """A running stream, until `finish`."""

    def __init__(self, sender: _Program, receiver: _Program, stamps: Path) -> None:
        self._sender, self._receiver, self._stamps = sender, receiver, stamps

    def await_flowing(self) -> None:
        self._receiver.await_word("flowing", TIMEOUT_S)

    def finish(self) -> Streamed:
        self._sender.say("enough")
        received = json.loads(self._receiver.await_word("{", DRAIN_TIMEOUT_S))
        sent = json.loads(self._sender.await_word("{", TIMEOUT_S))
        reads = array("d", self._stamps.read_bytes())
        return Streamed(reads[::2], reads[1::2], received == sent)


class _Program:
    def __init__(self, machine: Machine, *words: str) -> None:
        self._name = machine.name
        self._process = machine.popen([*PROGRAM, *words], stdin=subprocess.PIPE, stderr=None, text=True)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read_output, daemon=True).start()

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def await_word(self, beginning: str, within_s: float) -> str:
        try:
            output = self._lines.get(timeout=within_s)
        except queue.Empty:
            raise ExperimentFailed(
                f"{self._name}: the stream did not print {beginning!r} within {within_s:.0f} s"
            ) from None
        if not output.startswith(beginning):
            raise ExperimentFailed(f"{self._name}: the stream printed {output!r}, expected {beginning!r}")
        return output

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put("")


@contextmanager
def streaming(
    server: Machine, client: Machine, address: str, upload: bool = False, *, pace: Sequence[str] = ()
) -> Iterator[Stream]:
    """Stream from the server, or to it with `upload`; the client connects.

    Without `pace`, stream.py's BPS and congestion control, the stream is as fast as possible.
    """
    with tempfile.TemporaryDirectory(prefix="stream-", dir=isolate.RUN_DIRECTORY) as place:
        stamps = Path(place) / "stamps"
        roles = ("receive", "send") if upload else ("send", "receive")
        words = (address, str(PORT), str(stamps), *pace)
        listener = _Program(server, "listen", roles[0], *words)
        try:
            listener.await_word("listening", TIMEOUT_S)
            caller = _Program(client, "connect", roles[1], *words)
            try:
                sender, receiver = (caller, listener) if upload else (listener, caller)
                yield Stream(sender, receiver, stamps)
            finally:
                caller.end()
        finally:
            listener.end()


def till(moment: float) -> None:
    """Sleep until a moment of time.monotonic()."""
    time.sleep(max(0.0, moment - time.monotonic()))
