# SPDX-License-Identifier: Apache-2.0
"""Tables and durations as text."""

from __future__ import annotations

from collections.abc import Iterator


def aligned(rows: Iterator[tuple[str, ...]]) -> str:
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)


def ago(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
