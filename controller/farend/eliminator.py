"""One session of the agent at a site that lets the first of several copies pass: what it is told, and whether it does.

It does as long as its reports say so: not once it is silent, nor while it has no program at a port.
"""

from __future__ import annotations

from controller.farend.standing import Standing
from controller.reports import ELIMINATES, AgentOpened, Eliminate, Elimination, Resulted

SILENT_AFTER_S = 2.5  # without a report; the agent's programs let everything pass 3 s after they were last tended


class Eliminator:
    def __init__(self, event: AgentOpened) -> None:
        self.name = event.name
        self.session = event.session
        self.told: Elimination | None = None  # its last report
        self._standing = Standing[Eliminate](event, ELIMINATES)
        self._reported_at: float | None = None

    @property
    def is_new(self) -> bool:
        """It has reported nothing yet."""
        return self._reported_at is None and self._standing.refused is None

    def is_due(self, order: Eliminate, now: float) -> bool:
        """Whether it is to be told, or told again."""
        idle = not order.paths and self.told is None
        return self._standing.is_due(order, idle, self.fulfils(order, now), now)

    def ordered(self, order: Eliminate, directive: int, now: float) -> None:
        self._standing.ordered(order, directive, now)

    def resulted(self, event: Resulted) -> None:
        self._standing.resulted(event)

    def reported(self, told: Elimination | None, now: float) -> None:
        self.told, self._reported_at = told, now

    def fulfils(self, order: Eliminate, now: float) -> bool:
        if self.told is None:
            return not order.paths
        wholly = not self.told.missing and _names(self.told) == {name for name, _, _ in order.paths}
        return wholly and self._heard_of_late(now)

    def why_not(self) -> str:
        unwilling = self._standing.unable or self._standing.refused
        if unwilling:
            return unwilling
        if self.told is not None and self.told.missing:
            port, because = self.told.missing[0]
            return f"{port}: {because}"
        return f"the agent {self.name} has not said lately that it does"

    def _heard_of_late(self, now: float) -> bool:
        return self._reported_at is not None and now - self._reported_at <= SILENT_AFTER_S


def _names(told: Elimination) -> set[str]:
    return {path.name for path in told.paths}
