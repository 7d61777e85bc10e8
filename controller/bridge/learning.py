"""Who is behind a port, as it is told there: a first answer counts at once, a changed one at most once a second.

A change costs a compilation, and whoever is behind a port may tell another MAC a thousand times a second.
"""

from __future__ import annotations

from controller.known import Neighbour

CHANGE_EVERY_S = 1.0


class Learning:
    def __init__(self) -> None:
        self._changed_at: dict[Neighbour, float] = {}
        self._waiting: dict[Neighbour, str] = {}  # the newest that was told too early

    def told(self, where: Neighbour, mac: str, known: str | None, now: float) -> bool:
        """Whether `mac` takes the place of the known one now; if not, it may be due later."""
        self._waiting.pop(where, None)
        if mac == known:
            return False
        if where in self._changed_at and now - self._changed_at[where] < CHANGE_EVERY_S:
            self._waiting[where] = mac
            return False
        self._changed_at[where] = now
        return True

    def due(self, now: float) -> dict[Neighbour, str]:
        """What waited long enough; it is for the caller to take. Asked for at each tick: many are one compilation."""
        due = {where: mac for where, mac in self._waiting.items() if now - self._changed_at[where] >= CHANGE_EVERY_S}
        for where in due:
            del self._waiting[where]
            self._changed_at[where] = now
        return due
