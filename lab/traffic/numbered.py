# SPDX-License-Identifier: Apache-2.0
"""Send numbered datagrams while a test changes the network."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.stage.command import CommandFailed
from lab.stage.nodes import Machine

PROGRAM = [sys.executable, str(Path(__file__).with_name("datagrams.py"))]
PORT = 7400
PAYLOAD_BYTES = 100


@dataclass(frozen=True, slots=True)
class Counted:
    sent: int
    lateness_s: float  # sender's largest delay
    copies: Counter[int]  # arrivals per number
    sent_at: Mapping[int, float]  # time.monotonic() of arrivals' sending

    @property
    def lost(self) -> list[int]:
        return [number for number in range(self.sent) if number not in self.copies]

    @property
    def duplicates(self) -> int:
        return self.copies.total() - len(self.copies)


class Numbered:
    def __init__(self, sender: subprocess.Popen[str], receiver: subprocess.Popen[str]) -> None:
        self._sender, self._receiver = sender, receiver

    def stop(self) -> Counted:
        """Stop sending, and count what is still in flight."""
        sent, lateness_s = json.loads(self._sender.communicate("enough\n")[0])
        seen = json.loads(self._receiver.communicate("enough\n")[0])
        return Counted(
            sent, lateness_s, Counter(number for number, _, _ in seen), {number: at for number, at, _ in seen}
        )


@contextmanager
def numbered(
    source: Machine, target: Machine, address: str, rate_pps: int, payload_bytes: int = PAYLOAD_BYTES
) -> Iterator[Numbered]:
    with (
        _started(target, "ready", "receive", str(PORT)) as receiver,
        _started(source, "sending", "send", address, str(PORT), str(rate_pps), str(payload_bytes)) as sender,
    ):
        yield Numbered(sender, receiver)


@contextmanager
def _started(machine: Machine, word: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    with machine.popen([*PROGRAM, *words], stdin=subprocess.PIPE, stderr=None, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != f"{word}\n":
                raise CommandFailed(f"{machine.name}: `datagrams.py {' '.join(words)}` did not say {word!r}")
            yield process
        finally:
            process.kill()
