# SPDX-License-Identifier: Apache-2.0
"""A stream from one machine to another while a test changes its paths, and what both ends measured."""

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
WITHIN_S = 60.0
DRAINED_WITHIN_S = 60.0  # what was sent and has not come yet


@dataclass(frozen=True, slots=True)
class Streamed:
    """`moments` of time.monotonic() at which a read returned, and how many bytes had come by then."""

    moments: Sequence[float]
    sizes: Sequence[float]
    whole: bool  # what came is what was sent, to the last byte and in order

    def bps(self, since: float, until: float) -> float:
        return (self._come(until) - self._come(since)) * 8 / (until - since)

    def longest_pause_s(self, since: float = 0.0, until: float = float("inf")) -> float:
        """Between two reads, of which the second came after `since` and the first before `until`."""
        pauses = [later - sooner for sooner, later in pairwise(self.moments) if later > since and sooner < until]
        return max(pauses, default=0.0)

    def _come(self, moment: float) -> float:
        at = bisect_right(self.moments, moment)
        return self.sizes[at - 1] if at else 0.0


class Stream:
    """Under way, until `finish` ends it."""

    def __init__(self, sender: _End, receiver: _End, stamps: Path) -> None:
        self._sender, self._receiver, self._stamps = sender, receiver, stamps

    def await_flowing(self) -> None:
        self._receiver.await_word("flowing", WITHIN_S)

    def finish(self) -> Streamed:
        self._sender.say("enough")
        received = json.loads(self._receiver.await_word("{", DRAINED_WITHIN_S))
        sent = json.loads(self._sender.await_word("{", WITHIN_S))
        reads = array("d", self._stamps.read_bytes())
        return Streamed(reads[::2], reads[1::2], received == sent)


class _End:
    """The program at one end, and what it says."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self._name = machine.name
        self._process = machine.popen([*PROGRAM, *words], stdin=subprocess.PIPE, stderr=None, text=True)
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def await_word(self, beginning: str, within_s: float) -> str:
        try:
            said = self._said.get(timeout=within_s)
        except queue.Empty:
            raise ExperimentFailed(f"{self._name}: no {beginning!r} of the stream within {within_s:.0f} s") from None
        if not said.startswith(beginning):
            raise ExperimentFailed(f"{self._name}: the stream said {said!r} where {beginning!r} was expected")
        return said

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.strip())
        self._said.put("")


@contextmanager
def streaming(
    server: Machine, client: Machine, address: str, upload: bool = False, *, pace: Sequence[str] = ()
) -> Iterator[Stream]:
    """From the server, or with `upload` to it; the client connects. Both programs end with the block. `pace` is what
    stream.py is told of it: bits a second, and by which congestion control; none is as fast as it goes."""
    with tempfile.TemporaryDirectory(prefix="stream-", dir=isolate.RUN_DIRECTORY) as place:
        stamps = Path(place) / "stamps"
        roles = ("receive", "send") if upload else ("send", "receive")
        words = (address, str(PORT), str(stamps), *pace)
        listener = _End(server, "listen", roles[0], *words)
        try:
            listener.await_word("listening", WITHIN_S)
            caller = _End(client, "connect", roles[1], *words)
            try:
                sender, receiver = (caller, listener) if upload else (listener, caller)
                yield Stream(sender, receiver, stamps)
            finally:
                caller.end()
        finally:
            listener.end()


def till(moment: float) -> None:
    """Until this moment of time.monotonic(), when the next thing is due."""
    time.sleep(max(0.0, moment - time.monotonic()))
