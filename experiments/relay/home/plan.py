# SPDX-License-Identifier: Apache-2.0
"""Plan the transfers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

DOWN, UP = "down", "up"
UP_LOSS_PERCENT, DOWN_LOSS_PERCENT = 10, 5  # of Wi-Fi
MODES = ("bicast", "single", "off")  # of the relayed terminal
ALONE = "left alone"  # plain TCP over Wi-Fi


@dataclass(frozen=True, slots=True)
class Task:
    how: str  # one of MODES, or ALONE
    direction: str
    size_bytes: int

    def __str__(self) -> str:
        who = ALONE if self.how == ALONE else f"relayed, {self.how}"
        return f"{who}, {self.size_bytes / 1e6:.0f} MB {self.direction}"


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int
    down_bytes: int
    up_bytes: int
    alone_bytes: int  # slower, measured once

    @property
    def tasks(self) -> Iterator[Task]:
        for _ in range(self.rounds):
            for mode in MODES:
                yield Task(mode, DOWN, self.down_bytes)
                yield Task(mode, UP, self.up_bytes)
        yield Task(ALONE, DOWN, self.alone_bytes)
        yield Task(ALONE, UP, min(self.alone_bytes, self.up_bytes))


SHORT = Plan("short", 3, 20_000_000, 5_000_000, 2_000_000)
QUICK = Plan("quick", 3, 20_000_000, 10_000_000, 5_000_000)
FULL = Plan("full", 10, 100_000_000, 20_000_000, 100_000_000)
