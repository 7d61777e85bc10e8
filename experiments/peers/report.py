# SPDX-License-Identifier: Apache-2.0
"""Compare the variants row by row, and judge the promises."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median

from experiments.peers.measure import Run
from experiments.peers.plan import FAULTS, QUIET, ROWS, SIZES, Row
from experiments.peers.variants import CLEAR, OURS
from lab.results import provenance
from lab.results.figures import Figure, at_least, at_most, exactly, figure

HEADER = ("variant", "round", "figure", "value", "unit")
FOLDS: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": mean, "median": median, "max": max, "sum": sum}
MAX_GAP_MS = 20.0
LEGEND = (
    "<          a peer is better than ours, encrypted",
    "lossy      Wi-Fi 100 Mbit/s losing 10 % in bursts of four, LTE 50 Mbit/s losing 1 %, each way",
    "gap        between arrivals, beyond the sender's interval",
    "no stalls  without times of which the machine stood still for a tenth",
    "(a-b)      least and greatest of the rounds; losses are means or sums, longest ones maxima, others medians",
)
LEAST_RATE_SHARE = 0.6  # encrypted to clear


def _values(runs: Sequence[Run], variant: str, key: str) -> list[float]:
    return [run.values[key] for run in runs if run.variant == variant and key in run.values]


def _folded(runs: Sequence[Run], row: Row) -> dict[str, tuple[float, list[float]]]:
    """Return the row's value by variant, with the values of the rounds."""
    found = {name: _values(runs, name, row.key) for name in _variants(runs)}
    return {name: (FOLDS[row.fold](values), values) for name, values in found.items() if values}


def _variants(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.variant for run in runs))


def _is_lost(row: Row, found: Mapping[str, tuple[float, list[float]]]) -> bool:
    """Return whether a peer is better than ours, encrypted."""
    if OURS not in found:
        return False
    sign = 1 if row.more_is_better else -1
    return any(sign * value > sign * found[OURS][0] for name, (value, _) in found.items() if name not in (OURS, CLEAR))


def sorted_rows(runs: Sequence[Run]) -> list[tuple[Row, dict[str, tuple[float, list[float]]]]]:
    """Return the measured rows, those first in which a peer is better."""
    found = [(row, each) for row in ROWS if (each := _folded(runs, row))]
    return sorted(found, key=lambda one: not _is_lost(*one))


def comparison(runs: Sequence[Run]) -> Iterator[Figure]:
    for row, found in sorted_rows(runs):
        for name, (value, values) in found.items():
            yield figure(f"{row.text}: {name}", value, values, row.unit)


def promises(runs: Sequence[Run]) -> Iterator[Figure]:
    for name in (OURS, CLEAR):
        if failed := _values(runs, name, "failed"):
            yield figure(f"{name}: parts that failed", sum(failed), failed, "", exactly(0))
        for fault in FAULTS:
            if lost := _values(runs, name, f"{fault.key}_lost"):
                yield figure(f"{name}, {fault.text}: lost", sum(lost), lost, "datagrams", exactly(0))
            if gaps := _values(runs, name, f"{fault.key}_gap{QUIET}"):
                what = f"{name}, {fault.text}: longest gap, no stalls"
                yield figure(what, max(gaps), gaps, "ms", at_most(MAX_GAP_MS))
    for size in SIZES:
        encrypted, clear = (_values(runs, name, f"rate_{size}") for name in (OURS, CLEAR))
        if encrypted and clear:
            shares = [one / other for one, other in zip(encrypted, clear, strict=False)]
            what = f"{size} bytes: packets/s, encrypted / clear"
            yield figure(what, median(encrypted) / median(clear), shares, "", at_least(LEAST_RATE_SHARE))


def table(runs: Sequence[Run]) -> str:
    """Return a column for each variant. `<` marks rows in which a peer is better than ours, encrypted."""
    names = _variants(runs)
    lines = [["", *names]]
    for row, found in sorted_rows(runs):
        mark = "< " if _is_lost(row, found) else "  "
        what = f"{row.text}, {row.unit}" if row.unit else row.text
        lines.append([mark + what, *(_cell(found.get(name)) for name in names)])
    widths = [max(len(line[at]) for line in lines) for at in range(len(names) + 1)]
    return "\n".join([*("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines), "", *LEGEND])


def _cell(found: tuple[float, list[float]] | None) -> str:
    if found is None:
        return "-"
    value, values = found
    spread = f" ({min(values):.3g}-{max(values):.3g})" if len(values) > 1 else ""
    return f"{value:.3g}{spread}"


def keep_runs(runs: Sequence[Run], file: Path) -> None:
    units = {row.key: row.unit for row in ROWS}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as kept:
        writer = csv.writer(kept, lineterminator="\n")
        writer.writerow((*HEADER, *provenance.HEADER))
        for run in runs:
            for key, value in run.values.items():
                writer.writerow((run.variant, run.number, key, f"{value:.6g}", units[key], *provenance.provenance()))
