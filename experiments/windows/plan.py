# SPDX-License-Identifier: Apache-2.0
"""Plan the downloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from experiments.transfer.plan import MODES, PAPER, Task


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    size_bytes: int
    downs_percent: tuple[int, ...]  # loss of Wi-Fi
    rounds: int

    @property
    def tasks(self) -> Iterator[Task]:
        for number, down, how in product(range(1, self.rounds + 1), self.downs_percent, MODES):
            yield Task(PAPER, 0, down, how, number)


QUICK = Plan("quick", 20_000_000, (0, 2, 5), 1)
FULL = Plan("full", 100_000_000, tuple(range(6)), 5)
