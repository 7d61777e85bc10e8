# SPDX-License-Identifier: Apache-2.0
"""What paper 001 says in words of its figures 5 to 10, which it gives no tables of."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "001_said.csv"


@dataclass(frozen=True, slots=True)
class Said:
    """Of one set of hosts."""

    pairs: int
    better: int  # pairs with a better relay, by ping; of these are the next three
    any_count: int | None  # ping's relay passes the filter of numbers with (p, q) = (0, 1)
    any_distance: int | None  # the filter of RTTs with (x, y) = (0, 1)
    survive: int  # both, as printed
    triples: int  # senders, receivers and relays between which it transferred
    worse: int  # of which direct was better
    direct_by_theory_percent: int  # what direct transfers had of the equation's throughput


def said(name: str) -> Said:
    with FILE.open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row.pop("set") == name)
    numbers = {what: int(value) if value else None for what, value in row.items()}
    return Said(**numbers)  # type: ignore[arg-type]  # only what may be None is
