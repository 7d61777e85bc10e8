"""How often that is done which a stranger can bring about at any rate."""

from __future__ import annotations

from collections.abc import Hashable

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
