"""The transfer experiment's results for people, beside the paper's tables, and as one document."""

from __future__ import annotations

from typing import Any

from experiments import paper002
from experiments.transfer.plan import Setting
from experiments.transfer.results import (
    FRAME_BYTES,
    PAYLOAD_BYTES,
    Reading,
    Results,
    Verdict,
    limit_bps,
    verdicts,
)
from topologies.paper import LTE_BPS, WIFI_BPS

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
    return {"congestion_control": setting.congestion_control, "lte_backup": setting.lte_backup}


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
