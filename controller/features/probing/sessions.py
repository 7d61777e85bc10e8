# SPDX-License-Identifier: Apache-2.0
"""The agents at both ends of a path: their orders to answer and to send, and their meetings.

    both connected ──► met ──► the far one is ordered to answer ──► it does ──► the near one is ordered to send

A meeting pairs one session of each agent. Its number selects the key of their packets. It lasts while one of them is
away: agents continue with their last orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controller.agents.order_slot import OrderSlot
from controller.features.probing.probed_paths import (
    HEALTH_PORT,
    PAUSE_MS,
    PAUSE_SPARED_MS,
    PAUSE_WATCHED_MS,
    At,
    End,
    ProbedPath,
)
from controller.protocol.orders import AnswerProbes, AnswerSession, Direct, HealthPath, HealthProbes, Tickets
from controller.protocol.reports import PROBE, AgentOpened, Answering, PathHealth, Reported, Resulted


class Host:
    """One session of an agent that probes."""

    def __init__(self, event: AgentOpened) -> None:
        self.name, self.role = event.name, event.role
        self.session = event.session
        self.answering: Answering | None = None  # its last report
        self.health: dict[str, PathHealth] = {}  # its last report, by uplink
        self._answer = OrderSlot[AnswerProbes](event, PROBE)
        self._send = OrderSlot[HealthProbes](event, PROBE)
        self._knows = any(one.name == PROBE for one in event.capabilities)
        self._unanswered: dict[int, AnswerProbes] = {}  # by directive

    @property
    def end(self) -> End:
        return self.role, self.name

    @property
    def unable(self) -> str | None:
        if not self._knows:
            return f"the agent {self.name} has a version that cannot measure: install the version of this controller"
        return self._answer.unable

    @property
    def does_not_answer(self) -> str | None:
        """The reason why the agent refused the order to answer, or None."""
        return self._answer.refused

    @property
    def does_not_send(self) -> str | None:
        """Some or all uplinks are refused; the agent's reports show which."""
        return self._send.refused

    def tell(self, answer: AnswerProbes, health: HealthProbes, tickets: Tickets, now: float) -> Iterator[Direct]:
        """Send orders that the agent does not have, does not hold, or refused.

        An agent may carry out a refused order later. It confirms that only when the order is sent again.
        """
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
        """Return the meetings that the agent has confirmed to answer."""
        self._answer.resulted(event)
        self._send.resulted(event)
        order = self._unanswered.pop(event.directive, None)
        return frozenset(one.meeting for one in order.sessions) if order and event.done else frozenset()


@dataclass(frozen=True, slots=True)
class Meeting:
    path: ProbedPath
    near: int  # session of the near end's agent; `far` likewise
    far: int
    number: int
    watched: bool  # with short pauses between packets


class Meetings:
    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._of: dict[At, Meeting] = {}
        self._answered: frozenset[int] = frozenset()  # numbers of the meetings that the far end answers

    def keep(self, paths: Mapping[At, ProbedPath]) -> None:
        self._of = {at: met for at, met in self._of.items() if paths.get(at) == met.path}

    def meet(self, path: ProbedPath, near: Host, far: Host, watched: bool) -> bool:
        """Return whether this is a new meeting. Another pace needs one too: no packet number is answered twice."""
        met = self._of.get(path.at)
        is_new = met is None or (met.near, met.far, met.watched) != (near.session, far.session, watched)
        if is_new:
            self._of[path.at] = Meeting(path, near.session, far.session, self._tickets.draw(), watched)
        return is_new

    def answered(self, numbers: Iterable[int]) -> None:
        current = {met.number for met in self._of.values()}
        self._answered = self._answered.union(numbers) & current

    def of(self, path: ProbedPath) -> Meeting | None:
        """Return the meeting if the far end answers, otherwise None."""
        met = self._of.get(path.at)
        return met if met is not None and met.number in self._answered else None

    # Orders

    def answer(self, far: Host, paths: Iterable[ProbedPath]) -> AnswerProbes:
        return AnswerProbes(tuple(_session(met) for met in self._met(paths) if met.far == far.session))

    def health(self, near: Host, paths: Iterable[ProbedPath]) -> HealthProbes:
        ours = (met for met in self._met(paths) if met.near == near.session and met.number in self._answered)
        return HealthProbes(tuple(map(_path, ours)))

    def _met(self, paths: Iterable[ProbedPath]) -> Iterator[Meeting]:
        return (self._of[path.at] for path in paths if path.at in self._of)


def _session(met: Meeting) -> AnswerSession:
    return AnswerSession(met.path.number, HEALTH_PORT, met.path.probe_port, met.number)


def _path(met: Meeting) -> HealthPath:
    path = met.path
    spared = path.budget_bytes_per_day is not None or path.access_point is not None
    pause_ms = PAUSE_SPARED_MS if spared else PAUSE_WATCHED_MS if met.watched else PAUSE_MS
    return HealthPath(path.uplink, path.route, HEALTH_PORT, path.number, pause_ms, met.number)
