# SPDX-License-Identifier: Apache-2.0
"""Read paper 004's tables 2, 3, 5 and 6."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "004_tables.csv"


@dataclass(frozen=True, slots=True)
class PaperValue:
    """One link's value between two hosts."""

    table: int
    what: str
    value: float
    unit: str


def values(rate_bps: int) -> tuple[PaperValue, ...]:
    with FILE.open(encoding="utf-8") as file:
        return tuple(
            PaperValue(int(row["table"]), row["what"], float(row["value"]), row["unit"])
            for row in csv.DictReader(file)
            if float(row["link_mbit_s"]) * 1e6 == rate_bps
        )
