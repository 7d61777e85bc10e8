# SPDX-License-Identifier: Apache-2.0
"""Read paper 001's statements about figures 5 to 10, which have no tables."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "001_said.csv"


@dataclass(frozen=True, slots=True)
class RelayCounts:
    pairs: int
    better: int  # pairs with a better relay by ping, as in the next three
    any_count: int | None  # ping's relay passes the number filter, (p, q) = (0, 1)
    any_distance: int | None  # the RTT filter, (x, y) = (0, 1)
    survive: int  # both, as printed
    triples: int  # transfers: senders, receivers, relays
    worse: int  # direct was better
    direct_by_theory_percent: int  # relative to the equation


def counts(name: str) -> RelayCounts:
    with FILE.open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row.pop("set") == name)
    numbers = {what: int(value) if value else None for what, value in row.items()}
    return RelayCounts(**numbers)  # type: ignore[arg-type]  # only fields that may be None are
