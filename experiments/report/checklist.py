# SPDX-License-Identifier: Apache-2.0
"""The checklist of the papers, item by item.

A row counts as done or substituted only if what proves it is in the tree: a file, or the downloads that a table or a
figure of paper 002 needs (`002-downloads.csv#PART`).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.paper import paper002
from experiments.transfer.plan import CORNERS, PAPER, PAPER_REPEATS
from experiments.transfer.rows import PUBLISHED, Row
from lab.processes.controller import TREE

FILE = Path(__file__).parents[1] / "paper" / "checklist.csv"
DONE, SUBSTITUTED, IMPOSSIBLE, MISSING = STATES = ("done", "substituted", "impossible", "missing")


@dataclass(frozen=True, slots=True)
class Item:
    paper: str
    item: str
    place: str
    state: str
    how: str
    evidence: tuple[str, ...]


def checklist(downloads: Sequence[Row]) -> tuple[Item, ...]:
    with FILE.open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    items = (
        Item(paper, item, place, state, how, tuple(evidence.split()))
        for paper, item, place, state, how, evidence in lines
    )
    return tuple(proved(item, downloads) for item in items)


def proved(item: Item, downloads: Sequence[Row]) -> Item:
    if item.state not in (DONE, SUBSTITUTED):
        return item
    lacking = [why for evidence in item.evidence if (why := _lacks(evidence, downloads))]
    return replace(item, state=MISSING, how="; ".join(lacking)) if lacking or not item.evidence else item


def _lacks(evidence: str, downloads: Sequence[Row]) -> str:
    """Return what is missing, or nothing."""
    path, _, part = evidence.partition("#")
    if TREE / path != PUBLISHED:
        return "" if (TREE / path).exists() else f"`{path}` is missing"
    counted = Counter((row.task.cell, row.task.how) for row in downloads if row.good and row.task.setting == PAPER)
    needed, times = _needed(part)
    left = sum(counted[key] < times for key in needed)
    return f"{left} of {len(needed)} values are not measured" if left else ""


def _needed(part: str) -> tuple[Collection[tuple[tuple[int, int], str]], int]:
    """Return the cells with their mode, and how often each must be measured."""
    grid = paper002.seconds("plain")
    both = [(cell, how) for cell in grid for how in paper002.TABLES]
    match part.split("="):
        case ["down", percent]:
            return [key for key in both if key[0][1] == int(percent)], 1
        case [how] if how in paper002.TABLES:
            return [key for key in both if key[1] == how], 1
        case ["corners"]:
            return [key for key in both if key[0] in CORNERS], PAPER_REPEATS
        case ["all"]:
            return both, 1
    raise ValueError(f"{part!r}: expected down=PERCENT, bicast, plain, corners or all")
