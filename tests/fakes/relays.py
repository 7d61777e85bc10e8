# SPDX-License-Identifier: Apache-2.0
"""Fake agents of relays, and of a site that intercepts connections. They trace routes of an Internet held in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from controller.protocol.orders import Choices, Direct, Intercept, MeasureDistances, Relay
from controller.protocol.reports import (
    AgentOpened,
    Capability,
    Distance,
    DistancesMeasured,
    InterceptionReport,
    PendingDestination,
    RelayReached,
    RelayReport,
    Reported,
    Resulted,
    Role,
    Router,
    TerminalInterception,
)
from tests.fakes.host import FakeHost

SILENT = "nobody answers"


@dataclass
class Internet:
    """Round-trip times in milliseconds from agents to addresses. An address without one does not answer."""

    rtt_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    routers: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)  # relays that no gateway reaches

    def distance(self, who: str, address: str) -> Distance:
        rtt_us = round(1000 * self.rtt_ms.get((who, address), 0))
        routers = self.routers.get((who, address), [])
        passed = tuple(Router(each, rtt_us * number // (len(routers) + 1)) for number, each in enumerate(routers, 1))
        return Distance(address, "" if rtt_us else SILENT, rtt_us, passed)


class FakeProber(FakeHost):
    def __init__(self, name: str, role: Role, internet: Internet) -> None:
        super().__init__(name, role, (), [])
        self.internet = internet
        self.refuses: dict[str, str] = {}  # reasons by the type name of an order
        self.told: list[object] = []  # orders of these kinds
        self.measurements: list[Direct] = []  # orders that it has not reported yet
        self.cannot_measure = ""  # the reason of a missing capability

    def opened(self, session: int) -> AgentOpened:
        event = super().opened(session)
        self.measurements.clear()
        more = (Capability("relay", True, ""), Capability("take", True, ""))
        measures = Capability("walk", not self.cannot_measure, self.cannot_measure)
        return replace(event, capabilities=(*event.capabilities, *more, measures))

    def carry_out(self, direct: Direct) -> Resulted:
        if not isinstance(direct.order, Relay | Intercept | Choices | MeasureDistances):
            return super().carry_out(direct)
        self.told.append(direct.order)
        refused = self.refuses.get(type(direct.order).__name__)
        if refused is not None:
            return Resulted(self.session, direct.directive, False, refused, 0, 100)
        self.obey(direct)
        return Resulted(self.session, direct.directive, True, "done", 0, 100)

    def obey(self, direct: Direct) -> None:
        assert isinstance(direct.order, MeasureDistances)
        self.measurements.append(direct)

    def measured(self) -> DistancesMeasured:
        direct = self.measurements.pop(0)
        assert isinstance(direct.order, MeasureDistances)
        distances = tuple(self.internet.distance(self.name, target.address) for target in direct.order.targets)
        return DistancesMeasured(self.session, direct.directive, distances)

    def orders_of(self, kind: type) -> list[object]:
        return [each for each in self.told if isinstance(each, kind)]


class FakeRelay(FakeProber):
    def __init__(self, name: str, internet: Internet) -> None:
        super().__init__(name, Role.RELAY, internet)
        self.order = Relay()
        self.busy_percent, self.connections = 10, 0

    def obey(self, direct: Direct) -> None:
        if isinstance(direct.order, Relay):
            self.order = direct.order
        else:
            super().obey(direct)

    def report(self, interval_ms: int = 1000) -> Reported:
        one = RelayReport(
            "", self.order.draining, self.connections, 2, 9, 1, 1, 3, 10**6, 10**7, 80, self.busy_percent, "bbr"
        )
        return replace(super().report(interval_ms), relay=one if self.order.port else None)


class FakeGateway(FakeProber):
    def __init__(self, name: str, internet: Internet) -> None:
        super().__init__(name, Role.GATEWAY, internet)
        self.order, self.choices = Intercept(), Choices()
        self.pending: list[PendingDestination] = []

    def obey(self, direct: Direct) -> None:
        match direct.order:
            case Intercept():
                self.order = direct.order
            case Choices():
                self.choices = direct.order
            case _:
                super().obey(direct)

    def report(self, interval_ms: int = 1000) -> Reported:
        dead = self.internet.dead
        relays = tuple(
            RelayReached(each.name, "no route to host" if each.name in dead else "", 1, 2, 41_000)
            for each in self.order.relays
        )
        terminals = tuple(TerminalInterception(each.name, 1, 5, 2, 0, 1000, 9000) for each in self.order.terminals)
        chosen = {choice.prefix for choice in self.choices.choices}
        pending = tuple(each for each in self.pending if each.prefix not in chosen)
        interception = InterceptionReport("", relays, terminals, pending) if self.order.terminals else None
        return replace(super().report(interval_ms), interception=interception)
