# SPDX-License-Identifier: Apache-2.0
"""The sessions of agents that relay or intercept, and the distances that they measure on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from controller.agents.order_slot import OrderSlot
from controller.protocol.orders import Choices, Direct, DistanceTarget, Intercept, MeasureDistances, Relay, Tickets
from controller.protocol.reports import (
    INTERCEPTS,
    MEASURES_DISTANCES,
    RELAYS,
    AgentOpened,
    Distance,
    DistancesMeasured,
    InterceptionReport,
    RelayReached,
    RelayReport,
    Reported,
    Resulted,
)

MOST_AT_ONCE = 64  # limit of api/agent.proto
MOST_WANTED = 256
REPORTS_WITHIN_S = 15.0  # an agent measures a few destinations at a time, 3 s each, and may be busy


@dataclass(frozen=True, slots=True)
class Underway:
    directive: int
    to: tuple[DistanceTarget, ...]
    until: float


class DistanceProber:
    """One agent that measures distances: its queue, and one order at a time."""

    def __init__(self, event: AgentOpened) -> None:
        self.name, self.session = event.name, event.session
        reasons = [
            one.reason if not one.available else None for one in event.capabilities if one.name == MEASURES_DISTANCES
        ]
        self.unable: str | None = (
            reasons[0] if reasons else ("its version cannot probe round trips; install the version of this controller")
        )  # the reason
        self._wanted: dict[str, DistanceTarget] = {}  # by address, in order
        self._underway: Underway | None = None

    def want(self, to: DistanceTarget) -> None:
        """A full queue drops a measurement: later connections ask again."""
        if self.unable is None and not self.is_on_its_way(to.address) and len(self._wanted) < MOST_WANTED:
            self._wanted[to.address] = to

    def is_on_its_way(self, address: str) -> bool:
        underway = self._underway.to if self._underway else ()
        return address in self._wanted or any(to.address == address for to in underway)

    def begin(self, tickets: Tickets, now: float) -> Direct | None:
        if not self._wanted or self._underway is not None:
            return None
        to = tuple(self._wanted.values())[:MOST_AT_ONCE]
        for each in to:
            del self._wanted[each.address]
        self._underway = Underway(tickets.draw(), to, now + REPORTS_WITHIN_S)
        return Direct(self.session, self._underway.directive, MeasureDistances(to))

    def resulted(self, event: Resulted) -> tuple[Distance, ...]:
        if event.done or self._underway is None or event.directive != self._underway.directive:
            return ()
        return self._ended((), event.answer)

    def on_distances(self, event: DistancesMeasured) -> tuple[Distance, ...]:
        if self._underway is None or event.directive != self._underway.directive:
            return ()
        return self._ended(event.distances, f"the agent {self.name} reported nothing about it")

    def late(self, now: float) -> tuple[Distance, ...]:
        if self._underway is None or now <= self._underway.until:
            return ()
        return self._ended((), f"the agent {self.name} has not reported a result")

    def given_up(self) -> tuple[str, ...]:
        """Return the addresses of dropped measurements, which do not count as failed."""
        underway = self._underway.to if self._underway else ()
        given_up = (*self._wanted, *(to.address for to in underway))
        self._wanted.clear()
        self._underway = None
        return given_up

    def _ended(self, ways: Iterable[Distance], otherwise: str) -> tuple[Distance, ...]:
        targets = self._underway.to if self._underway else ()
        self._underway = None
        found = {way.address: way for way in ways}
        return tuple(found.get(to.address, Distance(to.address, otherwise, 0, ())) for to in targets)


Order = TypeVar("Order", Relay, Intercept, Choices)


class RelayClientAgent:
    def __init__(self, event: AgentOpened) -> None:
        self.name, self.session = event.name, event.session
        self.prober = DistanceProber(event)
        self.last_report: InterceptionReport | None = None
        self.relays: dict[str, RelayReached] = {}  # in the last report
        self.take = OrderSlot[Intercept](event, INTERCEPTS)
        self._choices = OrderSlot[Choices](event, INTERCEPTS)

    def tell(self, take: Intercept, choices: Choices, tickets: Tickets, now: float) -> Iterator[Direct]:
        idle = not take.terminals and self.last_report is None
        holds = self.take.refused is None and (self.last_report is not None) == bool(take.terminals)
        if self.take.is_due(take, idle, holds, now):
            yield _direct(self.session, self.take, take, tickets, now)
        if self.last_report is None:
            return  # its reachable relays are not known yet; earlier choices stay
        # Empty choices are sent too: the agent may keep an earlier run's choices, and not report their destinations.
        if self._choices.is_due(choices, not take.terminals, self._choices.refused is None, now):
            yield _direct(self.session, self._choices, choices, tickets, now)

    def resulted(self, event: Resulted) -> None:
        self.take.resulted(event)
        self._choices.resulted(event)

    def reported(self, event: Reported) -> bool:
        before, self.last_report = self.reached, event.interception
        self.relays = {one.name: one for one in event.interception.relays} if event.interception else {}
        return self.reached != before

    @property
    def reached(self) -> set[str]:
        return {name for name, one in self.relays.items() if not one.reason}

    @property
    def why_not(self) -> str | None:
        """The reason why the agent does not intercept as ordered, or None."""
        if self.last_report is not None and self.take.refused is None:
            return self.last_report.reason or None
        return self.take.unable or self.take.refused or f"the agent {self.name} has not confirmed yet that it does"


@dataclass(frozen=True, slots=True)
class Figures:
    """The last report of a relay about itself."""

    report: RelayReport
    at: float


class RelayAgent:
    """The session of an agent on a relay's host."""

    def __init__(self, event: AgentOpened) -> None:
        self.name, self.session = event.name, event.session
        self.prober = DistanceProber(event)
        self.last_report: RelayReport | None = None
        self._relay = OrderSlot[Relay](event, RELAYS)

    def tell(self, order: Relay, tickets: Tickets, now: float) -> Iterator[Direct]:
        idle = not order.port and self.last_report is None
        holds = self._relay.refused is None and (self.last_report is not None) == bool(order.port)
        if self._relay.is_due(order, idle, holds, now):
            yield _direct(self.session, self._relay, order, tickets, now)

    def resulted(self, event: Resulted) -> None:
        self._relay.resulted(event)

    @property
    def why_not(self) -> str | None:
        """The reason why the relay is not up, or None."""
        if self.last_report is not None and self._relay.refused is None:
            return self.last_report.reason or None
        return self._relay.unable or self._relay.refused or f"the agent {self.name} has not confirmed yet that it is up"


def _direct(session: int, standing: OrderSlot[Order], order: Order, tickets: Tickets, now: float) -> Direct:
    directive = tickets.draw()
    standing.ordered(order, directive, now)
    return Direct(session, directive, order)
