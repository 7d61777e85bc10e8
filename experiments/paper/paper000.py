# SPDX-License-Identifier: Apache-2.0
"""Read paper 000's table 2."""

from __future__ import annotations

import csv
from pathlib import Path

FILE = Path(__file__).parent / "000_table2_caps_by_terminals.csv"
SPLIT_MS = 100  # between the cases A and B


def bounds(tables: str, terminals: int, least_rtt_ms: float) -> tuple[int, int]:
    """Return largest and smallest window in segments; `tables` is gb or jb."""
    case = "a" if least_rtt_ms < SPLIT_MS else "b"
    with FILE.open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if int(row["terminals"]) == terminals)
    return int(row[f"{tables}_{case}_max"]), int(row[f"{tables}_{case}_min"])
