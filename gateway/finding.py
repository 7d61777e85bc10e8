# SPDX-License-Identifier: Apache-2.0
"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works with limits, or not yet
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    state: State
    found: str
    expected: str
    mend: str | None = None  # a shell command; None: `expected` names the remedy


def judged(name: str, right: bool, found: str, expected: str, mend: str | None = None, *, else_: State) -> Finding:
    return Finding(name, State.OK if right else else_, found, expected, None if right else mend)
