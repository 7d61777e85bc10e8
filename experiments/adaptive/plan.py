# SPDX-License-Identifier: Apache-2.0
"""Plan Wi-Fi's loss during a camera's upload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from lab.links.shape import Bursts

ADAPTIVE, ALWAYS, NEVER = "auto", "bicast", "single"  # modes
MODES = (ADAPTIVE, ALWAYS, NEVER)
DEAD_PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Wi-Fi's loss; 5 % and 10 % up with 5 % down are the worst corners of paper 002's grid."""

    name: str
    up_percent: float = 0.0
    down_percent: float = 0.0
    bursts: Bursts | None = None  # additional, each way

    @property
    def bad(self) -> bool:
        return self.up_percent > 0


# One in 400 packets begins a burst of 20 on average, about 5 % more, which outlasts a TCP window.
SCRIPT = (
    Phase("clean"),
    Phase("5 % lost", 5, 5),
    Phase("10 % lost, and bursts", 10, 5, Bursts(1 / 400, 1 / 20)),
    Phase("dead", DEAD_PERCENT, DEAD_PERCENT),
    Phase("clean again"),
)


@dataclass(frozen=True, slots=True)
class Task:
    mode: str
    number: int  # from 1
    phase_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int
    phase_s: float
    budget_bytes: int = 4_000_000  # of LTE, per day
    download_s: float = 45.0  # twice the budget's duration

    @property
    def tasks(self) -> Iterator[Task]:
        """Yield the modes in turns, so that other load on the machine affects all alike."""
        for number, mode in product(range(1, self.rounds + 1), MODES):
            yield Task(mode, number, self.phase_s)


QUICK = Plan("quick", 3, 15.0)
FULL = Plan("full", 3, 60.0)
