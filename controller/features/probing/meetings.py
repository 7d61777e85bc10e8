# SPDX-License-Identifier: Apache-2.0
"""The agents at both ends of a path: their orders to answer and to send, and their meetings.

    both connected ──► met ──► the far one is ordered to answer ──► it does ──► the near one is ordered to send

A meeting pairs one session of each agent. Its number selects the key of their packets. It lasts while one of them is
away: agents continue with their last orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controller.agents.agent import Agent
from controller.agents.order_kinds import HEALTH_PROBES, PROBE_ANSWERS
from controller.features.probing.probed_paths import (
    HEALTH_PORT,
    PAUSE_MS,
    PAUSE_SPARED_MS,
    PAUSE_WATCHED_MS,
    At,
    ProbedPath,
)
from controller.protocol.orders import AnswerProbes, AnswerSession, Direct, HealthPath, HealthProbes, Tickets
from controller.protocol.reports import PROBE


def cannot_probe(agent: Agent) -> str | None:
    """Return why the agent can neither probe nor answer, or None."""
    if not agent.knows(PROBE):
        return f"the agent {agent.name} has a version that cannot measure: install the version of this controller"
    return agent.slot(PROBE_ANSWERS).unable


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

    def meet(self, path: ProbedPath, near: Agent, far: Agent, watched: bool) -> bool:
        """Return whether this is a new meeting. Another pace needs one too: no packet number is answered twice."""
        met = self._of.get(path.at)
        is_new = met is None or (met.near, met.far, met.watched) != (near.session, far.session, watched)
        if is_new:
            self._of[path.at] = Meeting(path, near.session, far.session, self._tickets.draw(), watched)
        return is_new

    def acknowledged(self, far: Agent) -> None:
        """Record the meetings that the agent has confirmed to answer."""
        order = far.slot(PROBE_ANSWERS).acknowledged or PROBE_ANSWERS.nothing
        current = {met.number for met in self._of.values()}
        self._answered = self._answered.union(one.meeting for one in order.sessions) & current

    def of(self, path: ProbedPath) -> Meeting | None:
        """Return the meeting if the far end answers, otherwise None."""
        met = self._of.get(path.at)
        return met if met is not None and met.number in self._answered else None

    def orders(self, agent: Agent, paths: Iterable[ProbedPath], now: float) -> Iterator[Direct]:
        """Yield due orders. An agent may carry out a refused one later, and confirms that when it is repeated."""
        if cannot_probe(agent) is None:
            met = tuple(self._met(paths))
            answer = AnswerProbes(tuple(_session(each) for each in met if each.far == agent.session))
            yield from agent.order(PROBE_ANSWERS, answer, now)
            ours = (each for each in met if each.near == agent.session and each.number in self._answered)
            yield from agent.order(HEALTH_PROBES, HealthProbes(tuple(map(_path, ours))), now)

    def _met(self, paths: Iterable[ProbedPath]) -> Iterator[Meeting]:
        return (self._of[path.at] for path in paths if path.at in self._of)


def _session(met: Meeting) -> AnswerSession:
    return AnswerSession(met.path.number, HEALTH_PORT, met.path.probe_port, met.number)


def _path(met: Meeting) -> HealthPath:
    path = met.path
    spared = path.budget_bytes_per_day is not None or path.access_point is not None
    pause_ms = PAUSE_SPARED_MS if spared else PAUSE_WATCHED_MS if met.watched else PAUSE_MS
    return HealthPath(path.uplink, path.route, HEALTH_PORT, path.number, pause_ms, met.number)
