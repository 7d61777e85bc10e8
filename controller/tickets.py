"""Numbers for the core's orders: each later than the one before, so that answers tell their age."""

from __future__ import annotations

from itertools import count


class Tickets:
    def __init__(self) -> None:
        self._next = count(1)

    def draw(self) -> int:
        return next(self._next)
