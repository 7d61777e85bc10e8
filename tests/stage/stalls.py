# SPDX-License-Identifier: Apache-2.0
"""A measurement does not count if the machine stalled or its host took the processors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

STALL_S = 0.02
NAP_S = 0.002
STOLEN = 0.02  # of the processors' time
ATTEMPTS = 60

Measured = TypeVar("Measured")


class StallMonitor:
    """A thread on each processor sleeps and records its longest oversleep. The kernel counts the host's share."""

    def __init__(self) -> None:
        self.worst_s = self.stolen = 0.0
        self._before = _ticks()
        self._over = threading.Event()
        self._watchers = [threading.Thread(target=self._nap, args=(cpu,)) for cpu in os.sched_getaffinity(0)]

    def __enter__(self) -> StallMonitor:
        for each in self._watchers:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._watchers:
            each.join()
        (stolen, total), (stolen_before, before) = _ticks(), self._before
        self.stolen = (stolen - stolen_before) / max(1, total - before)

    def __str__(self) -> str:
        return f"{self.worst_s * 1000:.0f} ms and {self.stolen:.0%}"

    def _nap(self, cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread
        while not self._over.is_set():
            before = time.monotonic()
            time.sleep(NAP_S)
            self.worst_s = max(self.worst_s, time.monotonic() - before - NAP_S)


def _ticks() -> tuple[int, int]:
    """Return the ticks that the host took, and all ticks, summed over all processors."""
    of_all = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    counted = [int(each) for each in of_all.split()[1:9]]
    return counted[7], sum(counted)


def undisturbed(measure: Callable[[], Measured]) -> Measured:
    """Measure until a measurement counts, and return it."""
    stalls = []
    for _ in range(ATTEMPTS):
        with StallMonitor() as watch:
            measured = measure()
        if watch.worst_s < STALL_S and watch.stolen < STOLEN:
            return measured
        stalls.append(str(watch))
    raise AssertionError(
        f"in none of {ATTEMPTS} measurements the machine was ours: it stood still for {'; '.join(stalls)}"
    )
