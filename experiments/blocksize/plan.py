# SPDX-License-Identifier: Apache-2.0
"""Plan the uploads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.policy.caps.terminal_cap import BLOCK_BYTES

TERMINALS = (1, 2, 3)
LEAST_BYTES, MOST_BYTES = 32, 8 << 20
TRACED_BYTES = (128, 8 << 10, 8 << 20)  # in the paper's figures 5 to 13


@dataclass(frozen=True, slots=True)
class Task:
    """Simultaneous uploads, one per terminal."""

    terminals: int
    block_bytes: int  # of each write
    low_water_bytes: int  # TCP_NOTSENT_LOWAT; 0: the kernel's default

    def __str__(self) -> str:
        told = f"writes of {format_size(self.block_bytes)}"
        if self.low_water_bytes:
            told += f", a mark of {format_size(self.low_water_bytes)}"
        return f"{self.terminals} {'terminal' if self.terminals == 1 else 'terminals'}, {told}"


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    size_bytes: int  # of each upload
    factor: int  # between sizes
    rounds: int

    @property
    def blocks(self) -> tuple[int, ...]:
        sizes, each = [], LEAST_BYTES
        while each <= MOST_BYTES:
            sizes.append(each)
            each *= self.factor
        return tuple(sizes)

    @property
    def tasks(self) -> Iterator[Task]:
        for _ in range(self.rounds):
            for terminals in TERMINALS:
                yield from (Task(terminals, block, 0) for block in self.blocks)
                yield Task(terminals, MOST_BYTES, BLOCK_BYTES[terminals - 1])


QUICK = Plan("quick", 4_000_000, 4, 1)
FULL = Plan("full", 16_000_000, 2, 2)


def format_size(size_bytes: int) -> str:
    """Format as the paper does: 32 B, 8 KB, 8 MB."""
    if size_bytes >= 1 << 20:
        return f"{size_bytes >> 20} MB"
    return f"{size_bytes >> 10} KB" if size_bytes >= 1 << 10 else f"{size_bytes} B"
