# SPDX-License-Identifier: Apache-2.0
"""Verdicts, tables and figures 4 to 9, beside paper 002's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure as Drawing

from experiments.paper import paper002
from experiments.transfer.measure import duration, missing, times
from experiments.transfer.plan import (
    ALL_SETTINGS,
    FRAME_BYTES,
    MODES,
    PAYLOAD_BYTES,
    PROMISED,
    SETTINGS,
    Plan,
    Setting,
    Task,
    expected_s,
)
from experiments.transfer.rows import Row, Rows
from lab.results.figures import Figure
from lab.results.pictures import save
from topologies.paper import LTE_BPS, WIFI_BPS

CUBIC_RATIO = 0.65  # of plain's time, at most
BBR_OF_LIMIT = 1.20  # of the limit's time, at most

Cell = tuple[int, int]  # Wi-Fi loss up and down, percent


def limit_bps(setting: Setting) -> float:
    """Return TCP's payload rate over the usable paths; loss precedes the shaper's queue and takes no capacity."""
    rate_bps = WIFI_BPS if setting.lte_backup else WIFI_BPS + LTE_BPS
    return rate_bps * PAYLOAD_BYTES / FRAME_BYTES


@dataclass(frozen=True, slots=True)
class Reading:
    runs: tuple[float, ...]  # seconds, sorted

    @property
    def seconds(self) -> float:
        return median(self.runs)

    @property
    def n(self) -> int:
        return len(self.runs)

    @property
    def least(self) -> float:
        return self.runs[0]

    @property
    def most(self) -> float:
        return self.runs[-1]


class Results:
    def __init__(self, rows: Iterable[Row], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.bad = 0
        runs: dict[tuple[Setting, Cell, str], list[float]] = {}
        for row in rows:
            if not row.good:
                self.bad += 1
                continue
            runs.setdefault((row.task.setting, row.task.cell, row.task.how), []).append(row.seconds)
        self._readings = {key: Reading(tuple(sorted(those))) for key, those in runs.items()}

    def runs(self, setting: Setting, cell: Cell, how: str) -> tuple[float, ...]:
        reading = self.reading(setting, cell, how)
        return reading.runs if reading else ()

    def only(self, setting: Setting) -> Results:
        kept = Results((), self.size_bytes)
        kept._readings = {key: reading for key, reading in self._readings.items() if key[0] == setting}
        return kept

    def reading(self, setting: Setting, cell: Cell, how: str) -> Reading | None:
        return self._readings.get((setting, cell, how))

    @property
    def settings(self) -> list[Setting]:
        there = {setting for setting, _, _ in self._readings}
        return [setting for setting in ALL_SETTINGS if setting in there]

    def cells(self, setting: Setting) -> list[Cell]:
        return sorted({cell for where, cell, _ in self._readings if where == setting}, key=lambda cell: cell[::-1])

    def ratio(self, setting: Setting, cell: Cell) -> float | None:
        bicast, plain = (self.reading(setting, cell, how) for how in ("bicast", "plain"))
        return bicast.seconds / plain.seconds if bicast and plain else None

    def bps(self, reading: Reading) -> float:
        return self.size_bytes * 8 / reading.seconds

    def of_limit(self, setting: Setting, cell: Cell) -> float | None:
        bicast = self.reading(setting, cell, "bicast")
        return limit_bps(setting) / self.bps(bicast) if bicast else None


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    setting: Setting
    bound: float
    measured: float | None  # None: not yet
    where: Cell | None
    n: int
    paper: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.measured is None else self.measured <= self.bound


def verdicts(results: Results) -> list[Verdict]:
    return [_verdict(results, setting) for setting in SETTINGS]


def _verdict(results: Results, setting: Setting) -> Verdict:
    if setting.congestion_control == "cubic":
        paper = paper002.seconds("bicast")[PROMISED] / paper002.seconds("plain")[PROMISED]
        promise = (
            f"at Wi-Fi loss {PROMISED[0]} % up and {PROMISED[1]} % down bicast takes <= {CUBIC_RATIO} of plain's time"
        )
        measured = results.ratio(setting, PROMISED)
        n = min((one.n for how in ("bicast", "plain") if (one := results.reading(setting, PROMISED, how))), default=0)
        return Verdict(promise, setting, CUBIC_RATIO, measured, PROMISED, n, paper)
    promise = f"at every loss bicast takes <= {BBR_OF_LIMIT:.2f} of the time that the limit allows"
    found = {cell: share for cell in results.cells(setting) if (share := results.of_limit(setting, cell)) is not None}
    if not found:
        return Verdict(promise, setting, BBR_OF_LIMIT, None, None, 0)
    worst = max(found, key=found.__getitem__)
    reading = results.reading(setting, worst, "bicast")
    return Verdict(promise, setting, BBR_OF_LIMIT, found[worst], worst, reading.n if reading else 0)


WAYS = ("plain", "bicast")


def text(results: Results) -> str:
    parts = [_table(results, setting) for setting in results.settings]
    return "\n\n".join([_preface(results), *parts, "\n".join(map(_sentence, verdicts(results)))])


def _preface(results: Results) -> str:
    lines = [
        f"Downloads of {results.size_bytes / 1e6:.0f} MB here, of {paper002.BYTES / 1e6:.0f} MB in paper 002 (tables 5 "
        "and 6; LTE backup there). Seconds are medians [least-most of n].",
        f"The limit is what the shapers of the usable paths let through: rate x payload of a full frame / frame = rate "
        f"x {PAYLOAD_BYTES}/{FRAME_BYTES}; Wi-Fi's {WIFI_BPS / 1e6:.0f} Mbit/s, and LTE's {LTE_BPS / 1e6:.0f} where it "
        "is not backup.",
    ]
    if results.bad:
        lines.append(
            f"{results.bad} downloads are left out: what came was not what was sent, or it did not come by MPTCP."
        )
    return "\n".join(lines)


def _table(results: Results, setting: Setting) -> str:
    heads = (
        "loss %", "", "here: seconds", "", "", "Mbit/s", "", "bicast", "paper: seconds", "", "Mbit/s", "", "bicast",
    ), (
        "up", "down", "plain", "bicast", "limit", "plain", "bicast", "/ plain", "plain", "bicast", "plain", "bicast",
        "/ plain",
    )  # fmt: skip
    rows = [*heads, *(_line(results, setting, cell) for cell in results.cells(setting))]
    widths = [max(map(len, column)) for column in zip(*rows[1:], strict=True)]
    title = f"server's sender {setting}; limit {limit_bps(setting) / 1e6:.1f} Mbit/s"
    return "\n".join([title, *("  ".join(map(str.rjust, row, widths)) for row in rows)])


def _line(results: Results, setting: Setting, cell: tuple[int, int]) -> tuple[str, ...]:
    readings = [results.reading(setting, cell, how) for how in WAYS]
    ratio = results.ratio(setting, cell)
    theirs = [paper002.seconds(how)[cell] for how in WAYS]
    return (
        *map(str, cell),
        *map(_seconds, readings),
        f"{results.size_bytes * 8 / limit_bps(setting):.1f}",
        *("-" if one is None else f"{results.bps(one) / 1e6:.1f}" for one in readings),
        "-" if ratio is None else f"{ratio:.2f}",
        *(f"{each:.1f}" for each in theirs),
        *(f"{paper002.BYTES * 8 / each / 1e6:.1f}" for each in theirs),
        f"{theirs[1] / theirs[0]:.2f}",
    )


def _seconds(reading: Reading | None) -> str:
    if reading is None:
        return "-"
    return f"{reading.seconds:.1f} [{reading.least:.1f}-{reading.most:.1f} of {reading.n}]"


def _sentence(verdict: Verdict) -> str:
    head = f"{verdict.setting}: {verdict.promise}"
    if verdict.measured is None or verdict.where is None:
        return f"NOT MEASURED  {head}"
    up, down = verdict.where
    beside = (
        f"; paper {verdict.paper:.2f}" if verdict.paper is not None else f", the worst, at {up} % up, {down} % down"
    )
    return f"{'MET    ' if verdict.met else 'NOT MET'}  {head}: {verdict.measured:.2f} (n = {verdict.n}{beside})"


def document(results: Results) -> dict[str, Any]:
    return {
        "experiment": "transfer",
        "size_bytes": results.size_bytes,
        "paper_size_bytes": paper002.BYTES,
        "downloads_left_out": results.bad,
        "limits_bps": [{**_named(setting), "limit_bps": limit_bps(setting)} for setting in results.settings],
        "cells": [_cell(results, setting, cell) for setting in results.settings for cell in results.cells(setting)],
        "verdicts": [
            {
                **_named(one.setting),
                "promise": one.promise,
                "bound": one.bound,
                "measured": one.measured,
                "paper": one.paper,
                "met": one.met,
                "n": one.n,
                "wifi_loss_up_down_percent": one.where,
            }
            for one in verdicts(results)
        ],
    }


def _named(setting: Setting) -> dict[str, Any]:
    return {
        "congestion_control": setting.congestion_control,
        "lte_backup": setting.lte_backup,
        "frames_lost": setting.frames_lost,
        "network": setting.network,
    }


def _cell(results: Results, setting: Setting, cell: tuple[int, int]) -> dict[str, Any]:
    measured = {how: results.reading(setting, cell, how) for how in WAYS}
    return {
        **_named(setting),
        "wifi_up_loss_percent": cell[0],
        "wifi_down_loss_percent": cell[1],
        **{
            how: {"seconds": one.seconds, "least": one.least, "most": one.most, "n": one.n, "bps": results.bps(one)}
            for how, one in measured.items()
            if one is not None
        },
        "bicast_of_plain": results.ratio(setting, cell),
        "bicast_of_limit": results.of_limit(setting, cell),
        "paper_seconds": {how: paper002.seconds(how)[cell] for how in WAYS},
    }


# Paper 002's figures 4 to 9, one per loss down
#
# The first panel has the paper's curves, the others the measurements.
FIRST_FIGURE = 4  # of the paper, without loss down
STYLES: dict[str, dict[str, Any]] = {
    "plain": {"color": "tab:red", "marker": "s", "label": "plain MPTCP"},
    "bicast": {"color": "tab:blue", "marker": "o", "label": "bicast"},
}


def draw_figures(results: Results, directory: Path, name: str, suffix: str = "png") -> list[Path]:
    """`name` begins the file names, one per loss down."""
    downs = sorted({down for setting in results.settings for _, down in results.cells(setting)})
    return [_figure(results, down, directory / f"{name}-figure{FIRST_FIGURE + down}.{suffix}") for down in downs]


def _figure(results: Results, down: int, file: Path) -> Path:
    drawing = Drawing(figsize=(3.4 * (1 + len(results.settings)), 3.6), layout="constrained")
    same_bytes = results.size_bytes == paper002.BYTES
    first, *others = drawing.subplots(1, 1 + len(results.settings), squeeze=False, sharey=same_bytes)[0]
    _paper(first, down)
    for panel, setting in zip(others, results.settings, strict=True):
        cells = [cell for cell in results.cells(setting) if cell[1] == down]
        for how, style in STYLES.items():
            points = [(up, one) for up, _ in cells if (one := results.reading(setting, (up, down), how))]
            middle = [one.seconds for _, one in points]
            spread = [
                [one.seconds - one.least for _, one in points],
                [one.most - one.seconds for _, one in points],
            ]
            panel.errorbar([up for up, _ in points], middle, yerr=spread, capsize=3, **style)
        panel.axhline(results.size_bytes * 8 / limit_bps(setting), color="grey", linestyle=":", label="limit")
        _finish(panel, f"here: {setting}", results.size_bytes)
    drawing.suptitle(f"Wi-Fi loses {down} % down (the paper's figure {FIRST_FIGURE + down})")
    return save(drawing, file)


def _paper(panel: Any, down: int) -> None:
    for how, style in STYLES.items():
        points = [(up, seconds) for (up, at), seconds in paper002.seconds(how).items() if at == down]
        panel.plot(*zip(*points, strict=True), **style)
    _finish(panel, "paper 002", paper002.BYTES)


def _finish(panel: Any, title: str, size_bytes: int) -> None:
    panel.set_title(title, fontsize="medium")
    panel.set_xlabel("Wi-Fi loss up, %")
    panel.set_ylabel(f"seconds for {size_bytes / 1e6:.0f} MB")
    panel.set_ylim(bottom=0)
    panel.legend(fontsize="small")


def planned(plan: Plan, rows: Sequence[Row]) -> str:
    """Return what is measured, what is missing, and how long it takes."""
    here = set(plan.tasks)
    known = [row for row in rows if row.task in here]
    left = missing(plan, known)
    whole, rest = (duration(expected_s(those, plan.size_bytes, times(known))) for those in (plan.tasks, left))
    parts = [
        f"Downloads of {plan.size_bytes / 1e6:.0f} MB: {len(plan.tasks)}, about {whole}. Missing: {len(left)}, about "
        f"{rest}."
    ]
    for setting in dict.fromkeys(task.setting for task in plan.tasks):
        parts.append(_grid(plan.of(setting), left, setting))
    return "\n\n".join(parts)


def _grid(plan: Plan, left: Sequence[Task], setting: Setting) -> str:
    wanted = Counter((task.cell, task.how) for task in plan.tasks)
    lacking = Counter((task.cell, task.how) for task in left if task.setting == setting)
    downs = sorted({cell[1] for cell, _ in wanted})
    rows = [("up %", *(f"down {down} %" for down in downs))]
    for up in sorted({cell[0] for cell, _ in wanted}):
        rows.append((str(up), *("  ".join(_share(wanted, lacking, (up, down))) for down in downs)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.rjust, row, widths)).rstrip() for row in rows)
    return "\n".join([f"{setting} (--setting {setting.word}): measured of planned, {' and '.join(MODES)}", *lines])


def _share(wanted: Counter[tuple[Cell, str]], lacking: Counter[tuple[Cell, str]], cell: Cell) -> Iterator[str]:
    for how in MODES:
        if planned := wanted[cell, how]:
            yield f"{planned - lacking[cell, how]}/{planned}"


def present(plan: Plan, rows: Rows, as_json: bool) -> None:
    results = Results(rows.read(), plan.size_bytes)
    plots = draw_figures(results, rows.file.parent, plan.name)
    if as_json:
        files = {"csv": str(rows.file), "plots": [str(plot) for plot in plots]}
        print(json.dumps(document(results) | files, indent=2))
        return
    print(text(results))
    print(f"\nEvery download: {rows.file}\nPlots: {', '.join(str(plot) for plot in plots) or 'none'}")


def figure_of(results: Results, verdict: Verdict) -> Figure:
    """Return the figure of a verdict; its spread is the widest that the single downloads allow."""
    assert verdict.measured is not None and verdict.where is not None, "the plan has what is promised"
    bicast = results.reading(verdict.setting, verdict.where, "bicast")
    plain = results.reading(verdict.setting, verdict.where, "plain")
    assert bicast is not None
    least, most = bicast.least, bicast.most
    if verdict.setting.congestion_control == "cubic":
        assert plain is not None
        low, high = least / plain.most, most / plain.least
    else:
        allowed_s = results.size_bytes * 8 / limit_bps(verdict.setting)
        low, high = least / allowed_s, most / allowed_s
    up, down = verdict.where
    what = f"{verdict.setting}: {verdict.promise} (here at {up} % up, {down} % down)"
    return Figure(what, verdict.measured, "", verdict.n, low, high, f"<= {verdict.bound:g}", verdict.met)
