# SPDX-License-Identifier: Apache-2.0
"""Read paper 003's statements about figure 4, which has no table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "003_figure4_said.csv"
BEST = "best"


@dataclass(frozen=True, slots=True)
class WriteStatement:
    """A statement about writes of these sizes, by this number of terminals at one access point."""

    terminals: int
    least_block_bytes: int
    most_block_bytes: int
    what: str
    value: float | None  # None: only that these sizes are best
    unit: str


def statements() -> tuple[WriteStatement, ...]:
    with FILE.open(encoding="utf-8") as file:
        return tuple(
            WriteStatement(
                int(row["terminals"]),
                int(row["least_block_bytes"]),
                int(row["most_block_bytes"]),
                row["what"],
                float(row["value"]) if row["value"] else None,
                row["unit"],
            )
            for row in csv.DictReader(file)
        )
