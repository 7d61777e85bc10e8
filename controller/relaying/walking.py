"""One agent that finds out how far places are: all that is wanted of it at once, and one walk at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.orders import Direct, Walk, WalkTo
from controller.reports import WALKS, AgentOpened, Resulted, Walked, Way
from controller.tickets import Tickets

MOST_AT_ONCE = 64  # as api/agent.proto has it
MOST_WANTED = 256
TOLD_WITHIN_S = 15.0  # an agent takes 3 s for each of some places, and waits for what it does besides


@dataclass(frozen=True, slots=True)
class Underway:
    directive: int
    to: tuple[WalkTo, ...]
    until: float


class Walker:
    def __init__(self, event: AgentOpened) -> None:
        self.name, self.session = event.name, event.session
        said = [one.reason if not one.available else None for one in event.capabilities if one.name == WALKS]
        self.unable: str | None = said[0] if said else "it is of a version that does not walk"  # and why
        self._wanted: dict[str, WalkTo] = {}  # by address, in this order
        self._underway: Underway | None = None

    def want(self, to: WalkTo) -> None:
        """What is on its way is not walked twice, and what is too much not at all: who seeks it seeks it again."""
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
        self._underway = Underway(tickets.draw(), to, now + TOLD_WITHIN_S)
        return Direct(self.session, self._underway.directive, Walk(to))

    def resulted(self, event: Resulted) -> tuple[Way, ...]:
        """What is known of places by that: where it will not walk, that they are not."""
        if event.done or self._underway is None or event.directive != self._underway.directive:
            return ()
        return self._ended((), event.said)

    def walked(self, event: Walked) -> tuple[Way, ...]:
        if self._underway is None or event.directive != self._underway.directive:
            return ()
        return self._ended(event.ways, f"the agent {self.name} told nothing of it")

    def late(self, now: float) -> tuple[Way, ...]:
        if self._underway is None or now <= self._underway.until:
            return ()
        return self._ended((), f"the agent {self.name} has not told what came of it")

    def given_up(self) -> tuple[str, ...]:
        """Its stream has ended: the addresses of which it tells nothing any more, and nothing is known by that."""
        underway = self._underway.to if self._underway else ()
        given_up = (*self._wanted, *(to.address for to in underway))
        self._wanted.clear()
        self._underway = None
        return given_up

    def _ended(self, ways: Iterable[Way], otherwise: str) -> tuple[Way, ...]:
        asked = self._underway.to if self._underway else ()
        self._underway = None
        told = {way.address: way for way in ways}
        return tuple(told.get(to.address, Way(to.address, otherwise, 0, ())) for to in asked)
