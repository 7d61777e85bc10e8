"""One session of an agent that has to do with relays: of a site's host, which takes connections, or of a relay's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from controller.carried import Relaying, RelayReached, Taking
from controller.farend.standing import Standing
from controller.orders import Choices, Direct, Relay, Take
from controller.relaying.walking import Walker
from controller.reports import RELAYS, TAKES, AgentOpened, Reported, Resulted
from controller.tickets import Tickets

Order = TypeVar("Order", Relay, Take, Choices)


class Gateway:
    def __init__(self, event: AgentOpened) -> None:
        self.name, self.session = event.name, event.session
        self.walker = Walker(event)
        self.told: Taking | None = None  # its last report
        self.relays: dict[str, RelayReached] = {}  # in that
        self.take = Standing[Take](event, TAKES)
        self._choices = Standing[Choices](event, TAKES)

    def tell(self, take: Take, choices: Choices, tickets: Tickets, now: float) -> Iterator[Direct]:
        idle = not take.terminals and self.told is None
        holds = self.take.refused is None and (self.told is not None) == bool(take.terminals)
        if self.take.is_due(take, idle, holds, now):
            yield _told(self.session, self.take, take, tickets, now)
        if self.told is None:
            return  # whom it reaches is not known yet, and what it was told before stands
        # Also that there are none: it may have those of a controller before, and tells of no place that is in them.
        if self._choices.is_due(choices, not take.terminals, self._choices.refused is None, now):
            yield _told(self.session, self._choices, choices, tickets, now)

    def resulted(self, event: Resulted) -> None:
        self.take.resulted(event)
        self._choices.resulted(event)

    def reported(self, event: Reported) -> bool:
        """Whether others can be reached than before."""
        before, self.told = self.reached, event.taking
        self.relays = {one.name: one for one in event.taking.relays} if event.taking else {}
        return self.reached != before

    @property
    def reached(self) -> set[str]:
        return {name for name, one in self.relays.items() if not one.because}

    @property
    def why_not(self) -> str | None:
        """None: it takes what it is to."""
        if self.told is not None and self.take.refused is None:
            return self.told.because or None
        return self.take.unable or self.take.refused or f"the agent {self.name} has not said yet that it does"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a relay told of itself."""

    told: Relaying
    at: float


class Station:
    """At which a relay stands, or is to stand."""

    def __init__(self, event: AgentOpened) -> None:
        self.name, self.session = event.name, event.session
        self.walker = Walker(event)
        self.told: Relaying | None = None  # its last report
        self._relay = Standing[Relay](event, RELAYS)

    def tell(self, order: Relay, tickets: Tickets, now: float) -> Iterator[Direct]:
        idle = not order.port and self.told is None
        holds = self._relay.refused is None and (self.told is not None) == bool(order.port)
        if self._relay.is_due(order, idle, holds, now):
            yield _told(self.session, self._relay, order, tickets, now)

    def resulted(self, event: Resulted) -> None:
        self._relay.resulted(event)

    @property
    def why_not(self) -> str | None:
        """None: it stands."""
        if self.told is not None and self._relay.refused is None:
            return self.told.because or None
        return self._relay.unable or self._relay.refused or f"the agent {self.name} has not said yet that it stands"


def _told(session: int, standing: Standing[Order], order: Order, tickets: Tickets, now: float) -> Direct:
    directive = tickets.draw()
    standing.ordered(order, directive, now)
    return Direct(session, directive, order)
