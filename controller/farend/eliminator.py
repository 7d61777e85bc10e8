"""One session of the agent at a site that lets the first of several copies pass: what it is told, and whether it does.

opened ──► ordered ──► its reports say that it does ──► silent, or a port is missing ──► ordered again
                │
                └──► refused: ordered again after a while, for the reason may have gone
"""

from __future__ import annotations

from controller.reports import ELIMINATES, AgentOpened, Eliminate, Elimination, Resulted

SILENT_AFTER_S = 2.5  # without a report; the agent's programs let everything pass 3 s after they were last tended
AGAIN_AFTER_S = 5.0


class Eliminator:
    def __init__(self, event: AgentOpened) -> None:
        self.name = event.name
        self.session = event.session
        self.told: Elimination | None = None  # its last report
        self._unable = next((one.reason for one in event.capabilities if _is_lacking(one.name, one.available)), None)
        self._refused: str | None = None
        self._ordered: Eliminate | None = None
        self._ordered_at = 0.0
        self._directive: int | None = None  # not answered yet
        self._reported_at: float | None = None

    @property
    def is_new(self) -> bool:
        """It has reported nothing yet."""
        return self._reported_at is None and self._refused is None

    def is_due(self, order: Eliminate, now: float) -> bool:
        """Whether it is to be told, or told again."""
        if order != self._ordered:
            idle = not order.paths and self._ordered is None and self.told is None
            return not (idle or self._unable)
        lost = not self.fulfils(order, now)
        return lost and self._directive is None and now - self._ordered_at >= AGAIN_AFTER_S

    def ordered(self, order: Eliminate, directive: int, now: float) -> None:
        self._ordered, self._directive, self._ordered_at = order, directive, now

    def resulted(self, event: Resulted) -> None:
        if event.directive == self._directive:
            self._directive, self._refused = None, None if event.done else event.said

    def reported(self, told: Elimination | None, now: float) -> None:
        self.told, self._reported_at = told, now

    def fulfils(self, order: Eliminate, now: float) -> bool:
        if self.told is None:
            return not order.paths
        wholly = not self.told.missing and _names(self.told) == {name for name, _ in order.paths}
        return wholly and self._heard_of_late(now)

    def why_not(self) -> str:
        if self._unable or self._refused:
            return self._unable or self._refused or ""
        if self.told is not None and self.told.missing:
            port, because = self.told.missing[0]
            return f"{port}: {because}"
        return f"the agent {self.name} has not said lately that it does"

    def _heard_of_late(self, now: float) -> bool:
        return self._reported_at is not None and now - self._reported_at <= SILENT_AFTER_S


def _names(told: Elimination) -> set[str]:
    return {path.name for path in told.paths}


def _is_lacking(name: str, available: bool) -> bool:
    return name == ELIMINATES and not available
