# SPDX-License-Identifier: Apache-2.0
"""The result of a check: the state found, the state expected, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, less well, or not yet
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    state: State
    found: str
    expected: str
    mend: str | None = None  # a command for a shell; None: no command mends it, `expected` says who can


def judged(name: str, right: bool, found: str, expected: str, mend: str | None = None, *, else_: State) -> Finding:
    """A finding that is ok, or else `else_` with its mending line."""
    return Finding(name, State.OK if right else else_, found, expected, None if right else mend)
