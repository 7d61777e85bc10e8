# SPDX-License-Identifier: Apache-2.0
"""The papers' claims, and whether measured rows confirm them."""

from __future__ import annotations

import csv
import operator
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from experiments.report.figures import row_of

FILE = Path(__file__).parents[1] / "paper" / "findings.csv"
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq,
}  # fmt: skip
CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, MISSING = "confirmed", "not confirmed", "not testable here", "missing"
UNTESTED = "Missing:"  # begins the sentence of a claim that could be tested here


@dataclass(frozen=True, slots=True)
class Finding:
    paper: str
    claim: str
    place: str
    verdict: str
    measured: str  # with n
    sentence: str


@cache
def findings() -> tuple[Finding, ...]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(map(_finding, csv.DictReader(file)))


def _finding(line: dict[str, str]) -> Finding:
    verdict, measured = _judged(line["evidence"], line["bound"], line["sentence"])
    return Finding(line["paper"], line["claim"], line["place"], verdict, measured, line["sentence"])


def _judged(evidence: str, bound: str, sentence: str) -> tuple[str, str]:
    if not evidence:
        return (MISSING if sentence.startswith(UNTESTED) else NOT_TESTABLE), ""
    row = row_of(evidence)
    holds = holds_at(bound, row.value)
    return (
        CONFIRMED if holds else NOT_CONFIRMED
    ), f"{row.value:g} {row.unit}".strip() + f" (n = {row.n}); bound {bound}"


def holds_at(bound: str, value: float) -> bool:
    sign, limit = bound.split()
    return COMPARISONS[sign](value, float(limit))


def counted(claims: Iterable[Finding]) -> dict[str, int]:
    counts = Counter(each.verdict for each in claims)
    return {verdict: counts[verdict] for verdict in (CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, MISSING)}
