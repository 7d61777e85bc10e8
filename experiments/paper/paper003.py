# SPDX-License-Identifier: Apache-2.0
"""What paper 003 says in words of its figure 4, which it gives no table of: throughput by the size of writes."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "003_figure4_said.csv"
BEST = "best"


@dataclass(frozen=True, slots=True)
class Said:
    """Of writes of so many bytes, by so many terminals at one access point."""

    terminals: int
    least_block_bytes: int
    most_block_bytes: int
    what: str
    value: float | None  # None: only that these are best
    unit: str


def said() -> tuple[Said, ...]:
    with FILE.open(encoding="utf-8") as file:
        return tuple(
            Said(
                int(row["terminals"]),
                int(row["least_block_bytes"]),
                int(row["most_block_bytes"]),
                row["what"],
                float(row["value"]) if row["value"] else None,
                row["unit"],
            )
            for row in csv.DictReader(file)
        )
