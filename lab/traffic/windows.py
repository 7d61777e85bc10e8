# SPDX-License-Identifier: Apache-2.0
"""Sample the congestion windows of a server's connections."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.stage.nodes import Machine

EVERY_S = 0.2
LINE = re.compile(r" [\d.]+:\d+ +(?P<client>[\d.]+):\d+ .* cwnd:(?P<cwnd>\d+)")


@dataclass(frozen=True, slots=True)
class WindowSample:
    second: float  # since the sampling began
    client: str  # address of the subflow
    segments: int


@contextmanager
def sampled_windows(server: Machine, port: int) -> Iterator[list[WindowSample]]:
    """Add samples to the list while the block runs."""
    samples: list[WindowSample] = []
    ended = threading.Event()
    words = ("ss", "-tinOH", "state", "established", "sport", "=", f":{port}")
    began = time.monotonic()

    def sample() -> None:
        while not ended.is_set():
            second = time.monotonic() - began
            samples.extend(_parse(server.run(*words).stdout, second))
            ended.wait(max(0.0, EVERY_S - (time.monotonic() - began - second)))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def _parse(text: str, second: float) -> Iterator[WindowSample]:
    for line in text.splitlines():
        if found := LINE.search(line):
            yield WindowSample(second, found["client"], int(found["cwnd"]))
