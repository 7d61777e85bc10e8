"""When a switch is read again, for its counters and for what somebody may have changed behind our back."""

from __future__ import annotations

import math

EVERY_S = 10
COUNTED_EVERY_S = 1  # where copies are paid for by the byte, or somebody decides by what terminals send


class Looks:
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
