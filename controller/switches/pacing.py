# SPDX-License-Identifier: Apache-2.0
"""The pace of a switch: when it is read, how long an answer may take, and how often its program is compiled."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from controller.program.program import EMPTY, Program

# Readings, for counters and for changes that others made

EVERY_S = 10
COUNTED_EVERY_S = 1  # where copies are paid for by the byte, or somebody decides by what terminals send


class ReadSchedule:
    def __init__(self, now: float) -> None:
        self.every_s = EVERY_S
        self._next_at = now

    def due(self, now: float) -> bool:
        return now >= self._next_at

    def taken(self, session: int, now: float) -> None:
        """The next one is in the session's own second of ten: hundreds of switches do not all speak at once."""
        soon = math.floor(now) + 1
        self._next_at = soon + (session - soon) % self.every_s

    def hasten(self, now: float) -> None:
        """It is due a second after the last one."""
        self._next_at = min(self._next_at, math.floor(now) + 1)

    def postponed(self, now: float) -> None:
        self._next_at = now + EVERY_S


# Cache: a program that was read and found right is not compared field by field again

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ReadCache:
    """A program as it was read, and the compiled one that it was equal to."""

    read: Program = EMPTY
    meant: Program = EMPTY

    def recognised(self, read: Program) -> Program:
        """With the compiled value for each that is the very one of then (edges/openflow/multipart.py keeps them): that
        thousands of them still are equal is seen by identity, not field by field."""
        return replace(
            read,
            flows=_recognised(read.flows, self.read.flows, self.meant.flows),
            groups=_recognised(read.groups, self.read.groups, self.meant.groups),
        )


def _recognised(found: Mapping[K, V], before: Mapping[K, V], meant: Mapping[K, V]) -> dict[K, V]:
    return {key: meant[key] if before.get(key) is value else value for key, value in found.items()}


# Timeouts: a switch that answers echoes and nothing else must not be waited for for ever

ANSWERS_WITHIN_S = 10.0


class SwitchQuery(StrEnum):
    READ = "what it holds"
    APPLY = "that it has done what was sent"


class ReplyTimeouts:
    def __init__(self) -> None:
        self._since: dict[SwitchQuery, float] = {}

    def asked(self, question: SwitchQuery, now: float) -> None:
        """Asked once more before it is answered does not begin anew."""
        self._since.setdefault(question, now)

    def heard(self, question: SwitchQuery, now: float) -> None:
        """Not the last answer, but one: it is at it."""
        if question in self._since:
            self._since[question] = now

    def answered(self, question: SwitchQuery) -> None:
        self._since.pop(question, None)

    def ended(self, now: float) -> str | None:
        """Why it is waited for no more."""
        late = (question for question, since in self._since.items() if now - since >= ANSWERS_WITHIN_S)
        return next(
            (f"has not said {question} for {ANSWERS_WITHIN_S:g} s, and answers echoes" for question in late), None
        )


# Rate limits for work that an outsider can cause at any rate

REMEMBERED = 4096


class Seldom:
    """Once in a while for each."""

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
    """For changed ports: so many as they come, so many more when nothing else waits; at the next tick in any case."""

    AT_ONCE, AT_REST, PER_S = 4, 4, 15.0  # so that one that waits its turn has left the buckets within 100 ms

    def __init__(self) -> None:
        self._left = float(self.AT_ONCE + self.AT_REST)
        self._at = 0.0
        self.owed = False

    @property
    def next_at(self) -> float | None:
        """When it is worth while to ask at rest."""
        return self._at + max(0.0, 1 - self._left) / self.PER_S if self.owed else None

    def at_once(self, now: float) -> bool:
        """A port has changed."""
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
