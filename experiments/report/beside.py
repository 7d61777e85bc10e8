# SPDX-License-Identifier: Apache-2.0
"""The papers' printed numbers beside published rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from experiments.report.document import Block, Heading, Paragraph, Table
from experiments.report.figures import row_of

FILE = Path(__file__).parents[1] / "paper" / "beside.csv"
COMMANDS = {
    "000": "`./bicast experiment air --full`",
    "001": "`./bicast experiment relay`",
    "003": "`./bicast experiment blocksize --full`",
    "004": "`./bicast experiment owd --full`",
}
HEADS = ("what", "paper", "here", "from", "to", "n", "unit")


def tables(paper: str) -> Iterator[Block]:
    """Yield a table for each table or figure of a paper that has rows."""
    for title, lines in groupby((line for line in _lines() if line["paper"] == paper), lambda line: line["table"]):
        yield Heading(3, title)
        yield Paragraph(f"Here means {COMMANDS[paper]}.")
        yield Table(HEADS, tuple(map(_row, lines)))


@cache
def _lines() -> tuple[dict[str, str], ...]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _row(line: dict[str, str]) -> tuple[str, ...]:
    row = row_of(line["evidence"])
    measured = (f"{row.value:g}", f"{row.low:g}", f"{row.high:g}", str(row.n))
    return (line["what"], line["printed"] or "curve only", *measured, line["unit"])
