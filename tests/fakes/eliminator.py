# SPDX-License-Identifier: Apache-2.0
"""A fake agent of a gateway: it carries out orders on the ports that exist, and reports arrivals."""

from __future__ import annotations

from dataclasses import replace

from controller.protocol.orders import Direct, Eliminate, Tunnels
from controller.protocol.reports import (
    AgentOpened,
    Capability,
    Elimination,
    PathCopies,
    Reported,
    Resulted,
    Role,
    TunnelEnd,
    Tunnelling,
)
from tests.fakes.host import FakeHost

EMPTY = PathCopies("", True, 0, 0, 0, 0, 0, 0, 0, ())


class FakeEliminator(FakeHost):
    def __init__(
        self,
        name: str,
        unable: str | None = None,
        role: Role = Role.GATEWAY,
        no_tunnels: str | None = None,
        no_vxlan: str | None = None,
    ) -> None:
        """`no_tunnels` is the error of orders for tunnels, `no_vxlan` the reason of a missing capability."""
        super().__init__(name, role, (), [])
        self.tunnels: Tunnels | None = None
        self.of_tunnels: list[Tunnels] = []  # orders
        self.unheard: dict[str, str] = {}  # reasons by tunnel
        self.invented: dict[str, str] = {}  # reported tunnels that were never ordered, with a reason
        self._no_tunnels, self._no_vxlan = no_tunnels, no_vxlan
        self.order: Eliminate | None = None
        self.gone: dict[str, str] = {}  # reasons by port
        self._cannot = unable
        self._came: dict[str, PathCopies] = {}

    def opened(self, session: int) -> AgentOpened:
        event = super().opened(session)
        eliminates = Capability("eliminate", self._cannot is None, self._cannot or "")
        tunnels = Capability("tunnel", self._no_vxlan is None, self._no_vxlan or "")
        return replace(event, capabilities=(*event.capabilities, eliminates, tunnels))

    def carry_out(self, direct: Direct) -> Resulted:
        if isinstance(direct.order, Tunnels):
            return self._tunnel(direct.directive, direct.order)
        if not isinstance(direct.order, Eliminate):
            return super().carry_out(direct)
        self.orders.append(direct.order)
        self.order = direct.order if direct.order.paths else None
        self._came = {name: replace(EMPTY, name=name) for name, _, _ in direct.order.paths}
        missing = self._missing()
        said = f"{missing[0][0]}: {missing[0][1]}" if missing else "copies are eliminated"
        return Resulted(self.session, direct.directive, not missing, said, 0, 100)

    def report(self, interval_ms: int = 1000) -> Reported:
        told = Elimination(20_000, tuple(self._came.values()), self._missing()) if self.order else None
        tunnelling = self._tunnelling(self.tunnels) if self.tunnels else None
        return replace(super().report(interval_ms), elimination=told, tunnelling=tunnelling)

    def _tunnel(self, directive: int, order: Tunnels) -> Resulted:
        self.of_tunnels.append(order)
        if self._no_tunnels:
            return Resulted(self.session, directive, False, self._no_tunnels, 0, 100)
        self.tunnels = order if order.tunnels else None
        return Resulted(self.session, directive, True, "the tunnels stand", 0, 100)

    def _tunnelling(self, order: Tunnels) -> Tunnelling:
        whys = {each.name: self.unheard.get(each.name, "") for each in order.tunnels} | self.invented
        ends = (
            TunnelEnd(name, why, "192.0.2.1:51820", 4000 if why else 300, 9000, 1400, 0) for name, why in whys.items()
        )
        return Tunnelling(tuple(ends), 1400, ())

    def brings(self, path: str, first: int = 0, eliminated: int = 0, unidentified: int = 0) -> None:
        """Count more arrivals over a path."""
        came = self._came[path]
        self._came[path] = replace(
            came,
            first=came.first + first,
            eliminated=came.eliminated + eliminated,
            unidentified=came.unidentified + unidentified,
        )

    def _missing(self) -> tuple[tuple[str, str], ...]:
        ports = [port for _, port, _ in self.order.paths] if self.order else []
        return tuple((port, why) for port, why in self.gone.items() if port in ports)
