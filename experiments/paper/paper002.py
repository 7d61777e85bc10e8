# SPDX-License-Identifier: Apache-2.0
"""Read paper 002's tables 5 and 6: seconds for 500 MB."""

from __future__ import annotations

import csv
from pathlib import Path

BYTES = 500_000_000
TABLES = {"bicast": "002_table5_bicast_seconds.csv", "plain": "002_table6_plain_seconds.csv"}


def seconds(how: str) -> dict[tuple[int, int], float]:
    """Return seconds by loss up and down in percent; `how` is bicast or plain."""
    with (Path(__file__).parent / TABLES[how]).open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return {
        (int(row[0]), int(down)): float(value) for row in rows for down, value in zip(header[1:], row[1:], strict=True)
    }
