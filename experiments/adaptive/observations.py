# SPDX-License-Identifier: Apache-2.0
"""The observations of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from experiments.adaptive.plan import SCRIPT, Phase, Task
from lab.traffic.streaming import Streamed


@dataclass(frozen=True, slots=True)
class Change:
    """A start or an end of copies."""

    at: float  # time.monotonic()
    copies: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Carried:
    """LTE's bytes in both directions, by time.monotonic()."""

    moments: Sequence[float]
    sizes: Sequence[int]

    def between(self, since: float, until: float) -> float:
        return float(np.diff(np.interp((since, until), self.moments, self.sizes))[0])


@dataclass(frozen=True, slots=True)
class Part:
    phase: Phase
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class ScriptRun:
    task: Task
    moments: Sequence[float]  # each phase's beginning, and the last end
    streamed: Streamed
    carried: Carried
    changes: Sequence[Change]
    stalled: str

    def __str__(self) -> str:
        told = ", ".join(f"{part.phase.name} {self.bps(part) / 1e6:.2f}" for part in self.parts)
        lte = f"{self.lte_bytes / 1e6:.1f} MB by LTE, {len(self.counted)} changes"
        return f"{self.task.number} {self.task.mode}: Mbit/s {told}; {lte}"

    @property
    def parts(self) -> list[Part]:
        return [Part(phase, *span) for phase, span in zip(SCRIPT, pairwise(self.moments), strict=True)]

    def bps(self, part: Part) -> float:
        return self.streamed.bps(part.since, part.until)

    def pause_s(self, part: Part) -> float:
        return self.streamed.longest_pause_s(part.since, part.until)

    @property
    def lte_bytes(self) -> float:
        return self.carried.between(self.moments[0], self.moments[-1])

    @property
    def bad_lte_bytes(self) -> float:
        """Return LTE's bytes in phases in which copies pay."""
        return sum(self.carried.between(part.since, part.until) for part in self.parts if part.phase.bad)

    @property
    def counted(self) -> list[Change]:
        return [each for each in self.changes if self.moments[0] <= each.at < self.moments[-1]]

    def changes_in(self, part: Part) -> list[Change]:
        return [each for each in self.changes if part.since <= each.at < part.until]

    def has_copies(self, part: Part) -> bool:
        """Return whether copies were on when the phase began; without evidence they are."""
        before = [each.copies for each in self.changes if each.at < part.since]
        return before[-1] if before else True

    def is_to_decide(self, part: Part) -> bool:
        return self.has_copies(part) != part.phase.bad

    def decided_s(self, part: Part) -> float | None:
        """Return the time from a phase's beginning to the right decision; None: in force before, or never came."""
        right = (each.at - part.since for each in self.changes_in(part) if each.copies == part.phase.bad)
        return next(right, None) if self.is_to_decide(part) else None


@dataclass(frozen=True, slots=True)
class BudgetRun:
    """A download with copies while the day's budget lasts."""

    budget_bytes: int
    began: float
    carried: Carried  # up only, at LTE's far end
    streamed: Streamed
    ended: float
    reason: str  # the last one
    stalled: str

    def __str__(self) -> str:
        told = f"{self.copied_bytes} bytes came by LTE, of {self.budget_bytes}"
        return f"a download of {self.bps / 1e6:.1f} Mbit/s under a budget: {told}; {self.reason}"

    @property
    def copied_bytes(self) -> int:
        return self.carried.sizes[-1]

    @property
    def bps(self) -> float:
        return self.streamed.bps(self.began, self.ended)
