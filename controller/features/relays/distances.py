# SPDX-License-Identifier: Apache-2.0
"""The distances that an agent measures on request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.agents.agent import Agent
from controller.protocol.orders import Direct, DistanceTarget, MeasureDistances, Tickets
from controller.protocol.reports import MEASURES_DISTANCES, Distance, DistancesMeasured, Resulted

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

    def __init__(self, agent: Agent, session: int) -> None:
        self.agent, self.name, self._session = agent, agent.name, session
        self.unable = agent.cannot(MEASURES_DISTANCES)  # the reason
        if not agent.knows(MEASURES_DISTANCES):
            self.unable = "its version cannot probe round trips; install the version of this controller"
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
        return Direct(self._session, self._underway.directive, MeasureDistances(to))

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
