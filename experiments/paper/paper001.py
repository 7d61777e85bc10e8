# SPDX-License-Identifier: Apache-2.0
"""Read what paper 001 says about its figures 5 to 10, for which it has no tables."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "001_said.csv"


@dataclass(frozen=True, slots=True)
class RelayCounts:
    pairs: int
    better: int  # pairs with a better relay by ping; the next three are about these
    any_count: int | None  # ping's relay passes the filter of numbers with (p, q) = (0, 1)
    any_distance: int | None  # the filter of RTTs with (x, y) = (0, 1)
    survive: int  # both, as printed
    triples: int  # transfers between senders, receivers and relays
    worse: int  # those in which direct was better
    direct_by_theory_percent: int  # measured direct throughput, relative to the equation


def counts(name: str) -> RelayCounts:
    with FILE.open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row.pop("set") == name)
    numbers = {what: int(value) if value else None for what, value in row.items()}
    return RelayCounts(**numbers)  # type: ignore[arg-type]  # only fields that may be None are
