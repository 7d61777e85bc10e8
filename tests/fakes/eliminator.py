"""A gateway's hand that executes: it holds its order on the ports that are there, and tells of what came in."""

from __future__ import annotations

from dataclasses import replace

from controller.reports import (
    AgentOpened,
    Capability,
    Direct,
    Eliminate,
    Elimination,
    PathCopies,
    Reported,
    Resulted,
    Role,
)
from tests.fakes.hand import FakeHand

EMPTY = PathCopies("", True, 0, 0, 0, 0, 0, 0, ())


class FakeEliminator(FakeHand):
    def __init__(self, name: str, unable: str | None = None, role: Role = Role.GATEWAY) -> None:
        super().__init__(name, role, (), [])
        self.order: Eliminate | None = None
        self.gone: dict[str, str] = {}  # ports, and why
        self._cannot = unable
        self._came: dict[str, PathCopies] = {}

    def opened(self, session: int) -> AgentOpened:
        event = super().opened(session)
        eliminates = Capability("eliminate", self._cannot is None, self._cannot or "")
        return replace(event, capabilities=(*event.capabilities, eliminates))

    def carry_out(self, direct: Direct) -> Resulted:
        if not isinstance(direct.order, Eliminate):
            return super().carry_out(direct)
        self.orders.append(direct.order)
        self.order = direct.order if direct.order.paths else None
        self._came = {name: replace(EMPTY, name=name) for name, _ in direct.order.paths}
        missing = self._missing()
        said = f"{missing[0][0]}: {missing[0][1]}" if missing else "copies are eliminated"
        return Resulted(self.session, direct.directive, not missing, said, 0, 100)

    def report(self, interval_ms: int = 1000) -> Reported:
        told = Elimination(20_000, tuple(self._came.values()), self._missing()) if self.order else None
        return replace(super().report(interval_ms), elimination=told)

    def brings(self, path: str, first: int = 0, eliminated: int = 0) -> None:
        """So many more have come in by it."""
        came = self._came[path]
        self._came[path] = replace(came, first=came.first + first, eliminated=came.eliminated + eliminated)

    def _missing(self) -> tuple[tuple[str, str], ...]:
        ports = [port for _, port in self.order.paths] if self.order else []
        return tuple((port, why) for port, why in self.gone.items() if port in ports)
