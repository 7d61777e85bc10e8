# SPDX-License-Identifier: Apache-2.0
"""A measured figure: value, count, spread, and promised value."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Promise:
    text: str
    kept_by: Callable[[float], bool]


def at_least(least: float) -> Promise:
    return Promise(f">= {least:g}", lambda value: value >= least)


def at_most(most: float) -> Promise:
    return Promise(f"<= {most:g}", lambda value: value <= most)


def below(most: float) -> Promise:
    return Promise(f"< {most:g}", lambda value: value < most)


def exactly(wanted: float) -> Promise:
    return Promise(f"{wanted:g}", lambda value: value == wanted)


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: float
    unit: str
    n: int
    low: float
    high: float
    promise: str = ""
    met: bool | None = None  # None: no promise


def figure(what: str, value: float, values: Sequence[float], unit: str, promise: Promise | None = None) -> Figure:
    met = promise.kept_by(value) if promise else None
    return Figure(what, value, unit, len(values), min(values), max(values), promise.text if promise else "", met)


def middle(what: str, values: Sequence[float], unit: str, promise: Promise | None = None) -> Figure:
    return figure(what, median(values), values, unit, promise)


def worst(what: str, values: Sequence[float], unit: str, promise: Promise | None = None) -> Figure:
    return figure(what, max(values), values, unit, promise)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100).__int__() - 1)]


def table(figures: Sequence[Figure]) -> str:
    rows = [("WHAT", "MEASURED", "UNIT", "N", "FROM", "TO", "PROMISED", "VERDICT")]
    for each in figures:
        verdict = {None: "", True: "MET", False: "NOT MET"}[each.met]
        numbers = (_short(number) for number in (each.value, each.low, each.high))
        value, low, high = numbers
        rows.append((each.what, value, each.unit, str(each.n), low, high, each.promise, verdict))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _short(number: float) -> str:
    if number == int(number) and abs(number) < 1e9:
        return str(int(number))
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def keep(figures: Sequence[Figure], directory: Path, name: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    rows = [asdict(each) for each in figures]
    (directory / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    with (directory / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
