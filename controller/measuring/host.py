"""One session of a site's agent, or a terminal's: what it is to answer and to send, and what it says of both."""

from __future__ import annotations

from collections.abc import Iterator

from controller.farend.standing import Standing
from controller.measures import Answering, PathHealth
from controller.measuring.roads import End
from controller.orders import Answer, Direct, Health
from controller.reports import PROBE, AgentOpened, Reported, Resulted
from controller.tickets import Tickets


class Host:
    def __init__(self, event: AgentOpened) -> None:
        self.name, self.role = event.name, event.role
        self.session = event.session
        self.answering: Answering | None = None  # as it said last
        self.health: dict[str, PathHealth] = {}  # likewise, by uplink
        self._answer = Standing[Answer](event, PROBE)
        self._send = Standing[Health](event, PROBE)
        self._knows = any(one.name == PROBE for one in event.capabilities)
        self._unanswered: dict[int, Answer] = {}  # by directive

    @property
    def end(self) -> End:
        return self.role, self.name

    @property
    def unable(self) -> str | None:
        if not self._knows:
            return f"the agent {self.name} is of a version that measures nothing: install that of this controller"
        return self._answer.unable

    @property
    def does_not_answer(self) -> str | None:
        """Why, as it said to the order."""
        return self._answer.refused

    @property
    def does_not_send(self) -> str | None:
        """Likewise, by some uplink or by all: which it is its reports say."""
        return self._send.refused

    def tell(self, answer: Answer, health: Health, tickets: Tickets, now: float) -> Iterator[Direct]:
        """What it does not know yet, or does not hold. What it refused it may hold as soon as it can: that it does
        is said to who tells it again."""
        if self.unable:
            return
        holds = self._answer.refused is None and (self.answering is not None) == bool(answer.sessions)
        if self._answer.is_due(answer, not answer.sessions and self.answering is None, holds, now):
            directive = tickets.draw()
            self._answer.ordered(answer, directive, now)
            self._unanswered[directive] = answer
            yield Direct(self.session, directive, answer)
        holds = self._send.refused is None and self.health.keys() == {path.name for path in health.paths}
        if self._send.is_due(health, not health.paths and not self.health, holds, now):
            directive = tickets.draw()
            self._send.ordered(health, directive, now)
            yield Direct(self.session, directive, health)

    def reported(self, event: Reported) -> None:
        self.answering = event.answering
        self.health = {path.name: path for path in event.health}

    def resulted(self, event: Resulted) -> frozenset[int]:
        """The meetings that it answers from now on, where it says so."""
        self._answer.resulted(event)
        self._send.resulted(event)
        order = self._unanswered.pop(event.directive, None)
        return frozenset(one.meeting for one in order.sessions) if order and event.done else frozenset()
