# SPDX-License-Identifier: Apache-2.0
"""The pace of a switch: readings, timeouts and compilations."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from controller.program.program import EMPTY, Program

# Readings, for counters and others' changes

EVERY_S = 10
COUNTED_EVERY_S = 1  # if a budget or a decision depends on the counters


class ReadSchedule:
    def __init__(self, now: float) -> None:
        self.every_s = EVERY_S
        self._next_at = now

    def due(self, now: float) -> bool:
        return now >= self._next_at

    def taken(self, session: int, now: float) -> None:
        """Schedule the next reading at a second that depends on the session: switches take turns."""
        soon = math.floor(now) + 1
        self._next_at = soon + (session - soon) % self.every_s

    def hasten(self, now: float) -> None:
        self._next_at = min(self._next_at, math.floor(now) + 1)

    def postponed(self, now: float) -> None:
        self._next_at = now + EVERY_S


# Cache: a verified program is not compared field by field again

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ReadCache:
    """A program as read, and the equal compiled one."""

    read: Program = EMPTY
    meant: Program = EMPTY

    def recognised(self, read: Program) -> Program:
        """Replace values that are identical to the earlier reading by compiled ones.

        edges/openflow/multipart.py keeps the objects, so thousands of values compare by identity.
        """
        return replace(
            read,
            flows=_recognised(read.flows, self.read.flows, self.meant.flows),
            groups=_recognised(read.groups, self.read.groups, self.meant.groups),
        )


def _recognised(found: Mapping[K, V], before: Mapping[K, V], meant: Mapping[K, V]) -> dict[K, V]:
    return {key: meant[key] if before.get(key) is value else value for key, value in found.items()}


# Timeouts: a switch may answer echoes and nothing else

ANSWERS_WITHIN_S = 10.0


class SwitchQuery(StrEnum):
    READ = "the request for its program"
    APPLY = "the barrier after a change"


class ReplyTimeouts:
    def __init__(self) -> None:
        self._since: dict[SwitchQuery, float] = {}

    def question_sent(self, question: SwitchQuery, now: float) -> None:
        """Start the timeout. A repeated question does not restart it."""
        self._since.setdefault(question, now)

    def progressed(self, question: SwitchQuery, now: float) -> None:
        """An answer to an earlier question shows progress."""
        if question in self._since:
            self._since[question] = now

    def answered(self, question: SwitchQuery) -> None:
        self._since.pop(question, None)

    def ended(self, now: float) -> str | None:
        """Return which answer is overdue, as part of a sentence, or None."""
        late = (question for question, since in self._since.items() if now - since >= ANSWERS_WITHIN_S)
        return next(
            (f"has not answered {question} for {ANSWERS_WITHIN_S:g} s, but answers echo requests" for question in late),
            None,
        )


# Rate limits for work that outsiders can cause

REMEMBERED = 4096


class Seldom:
    """A rate limit: one event per key and interval."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last: dict[Hashable, float] = {}

    def allows(self, what: Hashable, now: float) -> bool:
        if what in self._last and now - self._last[what] < self._every_s:
            return False
        if len(self._last) >= REMEMBERED:
            self._last.clear()
        self._last[what] = now
        return True


class Compilations:
    """Token bucket for compilations after port changes: AT_ONCE immediately, AT_REST more when no event waits.

    The next tick compiles in any case.
    """

    AT_ONCE, AT_REST, PER_S = 4, 4, 15.0  # a delayed change is in the buckets within 100 ms

    def __init__(self) -> None:
        self._left = float(self.AT_ONCE + self.AT_REST)
        self._at = 0.0
        self.owed = False

    @property
    def next_at(self) -> float | None:
        """The time from which at_rest() may return True, or None if no change waits."""
        return self._at + max(0.0, 1 - self._left) / self.PER_S if self.owed else None

    def at_once(self, now: float) -> bool:
        self.owed = True
        return self._take(now, keep=self.AT_REST)

    def at_rest(self, now: float) -> bool:
        return self.owed and self._take(now, keep=0)

    def _take(self, now: float, keep: int) -> bool:
        most = float(self.AT_ONCE + self.AT_REST)
        self._left, self._at = min(most, self._left + (now - self._at) * self.PER_S), now
        if self._left < keep + 1:
            return False
        self._left -= 1
        return True
