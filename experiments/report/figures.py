# SPDX-License-Identifier: Apache-2.0
"""The figures that experiments published in docs/results/."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from lab.results import DOCS

ROWS = DOCS / "results"


class Row(NamedTuple):
    path: str
    value: float
    unit: str
    n: int
    low: float
    high: float
    promise: str
    met: str


def rows(name: str) -> Iterator[Row]:
    """An indented row belongs to the last less indented one; the path names both."""
    above: list[tuple[int, str]] = []
    with (ROWS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for each in csv.DictReader(file):
            label = each["what"].strip()
            depth = len(each["what"]) - len(each["what"].lstrip())
            above = [*(one for one in above if one[0] < depth), (depth, label)]
            path = " / ".join(one for _, one in above)
            low, value, high = (float(each[key]) for key in ("low", "value", "high"))
            yield Row(path, value, each["unit"], int(each["n"]), low, high, each["promise"], each["met"])


@cache
def _by_path(name: str) -> dict[str, Row]:
    return {row.path: row for row in rows(name)}


def row_of(evidence: str) -> Row:
    """Return the row that `file#path` names."""
    name, _, path = evidence.partition("#")
    return _by_path(name)[path]
