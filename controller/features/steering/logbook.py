# SPDX-License-Identifier: Apache-2.0
"""The last decisions about each terminal, with their figures and the outcomes at agents and switches, for `why`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from controller.model.text import counted
from controller.policy.copies.adaptive import CopyDecision
from controller.protocol.reports import FailoverFired, Resulted

KEPT = 20  # entries per terminal
UNORDERED = "none of its connections was ordered to move"  # follows an entry's `unmoved`


class By(StrEnum):
    PEOPLE = "people"
    POLICY = "policy"
    FAILOVER = "failover"


@dataclass(slots=True)
class AgentOutcome:
    """The result of a decision at one agent."""

    agent: str
    done: bool | None = None  # None: no answer yet
    answer: str = ""
    connections: int = 0
    took_us: int = 0
    orders: int = 1  # later orders move connections opened since


@dataclass(slots=True)
class SwitchOutcome:
    """The result of a decision at the gateway."""

    done: bool | None = None  # None: no answer yet
    answer: str = "the change has not been sent yet"

    @property
    def answered(self) -> bool:
        return self.done is not None


@dataclass(slots=True)
class LogEntry:
    number: int
    terminal: str
    at: float
    by: By
    uplink: str  # the new one
    left: str  # the old one
    reason: str
    hard: bool
    copies: bool | None = None  # copies begin or end; None: the decision is about the uplink
    gateway: SwitchOutcome = field(default_factory=SwitchOutcome)
    agents: dict[str, AgentOutcome] = field(default_factory=dict)  # by agent
    unmoved: str | None = None  # why no agent got an order
    reporters: tuple[str, ...] = ()  # the agents whose reports caused it

    @property
    def answered(self) -> bool:
        return all(each.done is not None for each in self.agents.values())

    def answers(self) -> tuple[str, ...]:
        if self.unmoved:
            return (f"{self.unmoved}: {UNORDERED}",)
        return tuple(_says(self.terminal, each) for each in self.agents.values() if each.done is not False)

    def failures(self) -> tuple[str, ...]:
        return tuple(f"{each.agent} could not: {each.answer}" for each in self.agents.values() if each.done is False)


def _says(terminal: str, outcome: AgentOutcome) -> str:
    if outcome.done is None:
        return f"{outcome.agent} has not answered yet; `./bicast why {terminal}` shows the result"
    return f"{outcome.agent} reached {counted(outcome.connections, 'connections')}: {outcome.answer}"


def reported_by(reporters: Iterable[str]) -> str:
    names = ", ".join(reporters)
    return f"; reported by {names}" if names else ""


class Logbook:
    def __init__(self) -> None:
        self._entries: dict[str, deque[LogEntry]] = {}  # by terminal
        self._directives: dict[int, AgentOutcome] = {}  # without an answer
        self._tickets: dict[tuple[int, int], SwitchOutcome] = {}  # by the switch's session and the ticket
        self._number = 0

    def entries(self, terminal: str) -> list[LogEntry]:
        """Return the entries of a terminal, the newest first."""
        return list(reversed(self._entries.get(terminal, ())))

    def newest(self, terminal: str) -> LogEntry | None:
        entries = self._entries.get(terminal)
        return entries[-1] if entries else None

    def last(self, terminal: str) -> LogEntry | None:
        """Return the last entry about the uplink, not about copies."""
        return next((entry for entry in self.entries(terminal) if entry.copies is None), None)

    def write(self, terminal: str, at: float, by: By, uplink: str, left: str, reason: str, hard: bool) -> LogEntry:
        self._number += 1
        return self._keep(LogEntry(self._number, terminal, at, by, uplink, left, reason, hard))

    def copied(self, decision: CopyDecision, active: str, now: float) -> LogEntry:
        self._number += 1
        name, reason, copies = decision.terminal, decision.reason, decision.copies
        entry = LogEntry(self._number, name, now, By.POLICY, active, active, reason, False, copies)
        entry.reporters = decision.reporters
        return self._keep(entry)

    def _keep(self, entry: LogEntry) -> LogEntry:
        self._entries.setdefault(entry.terminal, deque(maxlen=KEPT)).append(entry)
        return entry

    def standing(self, terminal: str, uplink: str, by: By, reason: str, now: float) -> LogEntry:
        """Return the decision in force. If it is unknown, write one with this reason."""
        last = self.last(terminal)
        if last is not None and last.uplink == uplink:
            return last
        entry = self.write(terminal, now, by, uplink, uplink, reason, hard=False)
        entry.gateway.done, entry.gateway.answer = True, "its groups are already as requested"
        return entry

    def keep(self, terminals: Iterable[str]) -> None:
        kept = set(terminals)
        self._entries = {name: entries for name, entries in self._entries.items() if name in kept}

    # Agents

    def ordered(self, entry: LogEntry, agent: str, directive: int) -> None:
        entry.unmoved = None
        before = entry.agents.get(agent)
        entry.agents[agent] = self._directives[directive] = AgentOutcome(
            agent, orders=before.orders + 1 if before else 1
        )

    def fired(self, entry: LogEntry, agent: str, event: FailoverFired) -> None:
        entry.agents[agent] = AgentOutcome(agent, True, event.answer, event.connections)

    def resulted(self, event: Resulted) -> None:
        outcome = self._directives.pop(event.directive, None)
        if outcome is not None:
            outcome.done, outcome.answer = event.done, event.answer
            outcome.connections, outcome.took_us = event.connections, event.took_us

    def unanswered(self, directive: int, why: str) -> None:
        outcome = self._directives.pop(directive, None)
        if outcome is not None:
            outcome.done, outcome.answer = False, why

    # Gateways

    def sent(self, entries: Iterable[LogEntry], session: int, ticket: int, answer: str) -> None:
        moved = self._tickets[session, ticket] = SwitchOutcome(None, answer)
        for entry in entries:
            entry.gateway = moved

    def unconfirmed(self, session: int | None) -> SwitchOutcome | None:
        """Return the last order without an answer. A switch answers orders in sequence."""
        return next((moved for (sent_to, _), moved in reversed(self._tickets.items()) if sent_to == session), None)

    def applied(self, session: int, ticket: int) -> None:
        moved = self._tickets.pop((session, ticket), None)
        if moved is not None:
            moved.done = True

    def refused(self, session: int, ticket: int | None, reason: str) -> None:
        moved = self._tickets.pop((session, ticket or 0), None)
        if moved is not None:
            moved.done, moved.answer = False, f"the switch refused: {reason}"

    def closed(self, session: int) -> None:
        for key in [key for key in self._tickets if key[0] == session]:
            moved = self._tickets.pop(key)
            moved.done, moved.answer = (
                False,
                ("the switch disconnected before it answered; the missing changes are sent when it reconnects"),
            )
