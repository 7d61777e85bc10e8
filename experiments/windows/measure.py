# SPDX-License-Identifier: Apache-2.0
"""Download and sample the window of the subflow that carries the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from experiments.laboratories.two_paths import UPLINKS
from experiments.transfer.measure import laboratory
from experiments.transfer.plan import PAPER
from experiments.windows.plan import Plan
from lab.traffic.web import PORT
from lab.traffic.windows import sampled_windows


@dataclass(frozen=True, slots=True)
class Run:
    down_percent: int
    how: str  # plain or bicast
    number: int
    seconds: float  # of the download; 0: not known
    samples: tuple[tuple[float, int], ...]  # second, window in segments
    stalled: str = ""

    @property
    def window_segments(self) -> float:
        return mean(segments for _, segments in self.samples)

    def __str__(self) -> str:
        where = f"Wi-Fi loses {self.down_percent} % down; {self.how:6}"
        return f"{where}  {self.seconds:6.2f} s, window {self.window_segments:6.1f} segments on average"


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    with laboratory(PAPER, plan.size_bytes) as lab:
        for task in plan.tasks:
            with sampled_windows(lab.server, PORT) as samples:
                row = lab.download(task)
            wifi = tuple((each.second, each.segments) for each in samples if each.client == UPLINKS["wifi"])
            yield Run(task.down_percent, task.how, task.number, row.seconds, wifi)
