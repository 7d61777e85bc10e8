# SPDX-License-Identifier: Apache-2.0
"""What befalls Wi-Fi while a camera's picture goes up over it, in which modes, and how long each part of it lasts."""

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
    """What Wi-Fi loses meanwhile, by paper 002's grid: 5 % and 10 % up with 5 % down are its worst corners."""

    name: str
    up_percent: float = 0.0
    down_percent: float = 0.0
    bursts: Bursts | None = None  # beside that, each way

    @property
    def bad(self) -> bool:
        return self.up_percent > 0


# One in 400 packets begins a burst that takes 20 in the mean, some 5 % more: no burst is over within a window of TCP's.
SCRIPT = (
    Phase("clean"),
    Phase("5 % lost", 5, 5),
    Phase("10 % lost, and bursts", 10, 5, Bursts(1 / 400, 1 / 20)),
    Phase("dead", DEAD_PERCENT, DEAD_PERCENT),
    Phase("clean again"),
)


@dataclass(frozen=True, slots=True)
class Task:
    """The script once, in one mode."""

    mode: str
    number: int  # from 1
    phase_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/adaptive are named so
    rounds: int
    phase_s: float
    budget_bytes: int = 4_000_000  # a day, of LTE
    download_s: float = 45.0  # whose acknowledgements would use it up twice

    @property
    def tasks(self) -> Iterator[Task]:
        """Modes in turns, so that what the machine does beside it hits all alike."""
        for number, mode in product(range(1, self.rounds + 1), MODES):
            yield Task(mode, number, self.phase_s)


QUICK = Plan("quick", 3, 15.0)
FULL = Plan("full", 3, 60.0)
