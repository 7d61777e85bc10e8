# SPDX-License-Identifier: Apache-2.0
"""What was seen of the script in one mode, and of a budget: as values, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from experiments.adaptive.plan import SCRIPT, Phase, Task
from lab.traffic.streaming import Streamed


@dataclass(frozen=True, slots=True)
class Change:
    """From one path to copies, or back."""

    at: float  # as time.monotonic()
    copies: bool
    because: str


@dataclass(frozen=True, slots=True)
class Carried:
    """By LTE, both ways, at these moments of time.monotonic(), since it was raised."""

    moments: Sequence[float]
    sizes: Sequence[int]

    def between(self, since: float, until: float) -> float:
        return float(np.diff(np.interp((since, until), self.moments, self.sizes))[0])


@dataclass(frozen=True, slots=True)
class Part:
    """One phase of a run."""

    phase: Phase
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Scripted:
    task: Task
    moments: Sequence[float]  # at which each phase began, and the last one ended
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
        """In the phases in which copies are worth something."""
        return sum(self.carried.between(part.since, part.until) for part in self.parts if part.phase.bad)

    @property
    def counted(self) -> list[Change]:
        """Since the script began."""
        return [each for each in self.changes if self.moments[0] <= each.at < self.moments[-1]]

    def changes_in(self, part: Part) -> list[Change]:
        return [each for each in self.changes if part.since <= each.at < part.until]

    def has_copies(self, part: Part) -> bool:
        """As it begins. They are there before anything is known."""
        before = [each.copies for each in self.changes if each.at < part.since]
        return before[-1] if before else True

    def is_to_decide(self, part: Part) -> bool:
        return self.has_copies(part) != part.phase.bad

    def decided_s(self, part: Part) -> float | None:
        """From its beginning until copies were as the phase would have them; None: they were so, or never came to be
        while it lasted."""
        right = (each.at - part.since for each in self.changes_in(part) if each.copies == part.phase.bad)
        return next(right, None) if self.is_to_decide(part) else None


@dataclass(frozen=True, slots=True)
class Budgeted:
    """A download whose acknowledgements ride LTE as well, as long as the day's budget lasts."""

    budget_bytes: int
    began: float
    carried: Carried  # by LTE, up alone, as it came out at its far end
    streamed: Streamed
    ended: float
    told: str  # what is said of the budget at the end
    stalled: str

    def __str__(self) -> str:
        told = f"{self.copied_bytes} bytes came by LTE, of {self.budget_bytes}"
        return f"a download of {self.bps / 1e6:.1f} Mbit/s under a budget: {told}; {self.told}"

    @property
    def copied_bytes(self) -> int:
        return self.carried.sizes[-1]

    @property
    def bps(self) -> float:
        return self.streamed.bps(self.began, self.ended)
