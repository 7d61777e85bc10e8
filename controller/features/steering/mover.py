# SPDX-License-Identifier: Apache-2.0
"""One agent as the mover of terminals: their connections in its reports, its open orders and its armed failovers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controller.agents.agent import Agent
from controller.agents.order_slot import ANSWERED_WITHIN_S
from controller.features.steering.arms import Arms
from controller.model.in_force import InForce
from controller.policy.paths.evidence import TerminalConnections, weigh
from controller.policy.paths.failover import ArmedFailover
from controller.policy.paths.flows import uncounted
from controller.policy.paths.health import UplinkReading
from controller.policy.paths.movers import Reach
from controller.policy.paths.uplinks import AddressOwner, Paths, TerminalUplinks, way
from controller.protocol.orders import Arm, Direct, Directive, Disarm, Prefer, Tickets
from controller.protocol.reports import MOVES, FailoverFired, Reported, Role

log = logging.getLogger(__name__)

REMEMBERED = 8  # per terminal; fewer fire between two reports


@dataclass(frozen=True, slots=True)
class Waiting:
    order: Directive
    since: float


class Mover:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.standings: dict[str, TerminalConnections] = {}  # by terminal
        self.serves_strangers = False  # MPTCP connections of hosts outside the configuration
        self.concerns: frozenset[str] = frozenset()  # terminals whose connections it reports
        self.owned: tuple[str, ...] = ()  # names of the terminals that it spoke for when this was last looked at
        self._owns_anew = False  # since its last report
        self.arms = Arms()
        self._doubted = False  # it reported an unarmed failover in this session
        self._waiting: dict[int, Waiting] = {}
        self._preferring: dict[str, int] = {}  # last directive to move a terminal
        self._fired_at_us: dict[str, tuple[int, ...]] = {}  # by terminal

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def role(self) -> Role:
        return self.agent.role

    def open(self) -> None:
        self.arms.opened()
        self._doubted = False

    def close(self) -> list[int]:
        """Forget the session and return its unanswered directives."""
        self.forget()
        lost, self._waiting, self._preferring = list(self._waiting), {}, {}
        return lost

    def forget(self) -> None:
        self.standings, self.serves_strangers = {}, False

    def own(self) -> None:
        """Forget terminals that it no longer speaks for. What the others sent before does not count."""
        self.owned, self._owns_anew = self.agent.owns, True
        self.standings = {name: standing for name, standing in self.standings.items() if name in self.owned}

    def weigh(
        self, event: Reported, sends: bool, homes: Mapping[str, AddressOwner], in_force: InForce
    ) -> tuple[Mapping[tuple[str, str], UplinkReading], Mapping[str, TerminalUplinks]]:
        ways: dict[str, TerminalUplinks] = {}

        def way_of(home: AddressOwner) -> TerminalUplinks:
            name = home.terminal.name
            if name not in ways:
                ways[name] = way(home.site, home.terminal, in_force)
            return ways[name]

        flows = uncounted(self.agent.whole_flows) if self._owns_anew else self.agent.whole_flows
        self._owns_anew = False
        weighed = weigh(flows, event.interval_ms, sends, homes.get, way_of, event.confirmed)
        self.standings, self.serves_strangers = weighed.standings, weighed.serves_strangers
        return weighed.readings, ways

    # Orders

    def order(self, order: Directive, terminal: str, tickets: Tickets, now: float) -> Direct:
        directive = tickets.draw()
        self._waiting[directive] = Waiting(order, now)
        if isinstance(order, Prefer):
            self._preferring[terminal] = directive
        return Direct(self.agent.session, directive, order)

    def answered(self, directive: int) -> Directive | None:
        """Remove a directive and return its order, or None if this session did not send it."""
        waiting = self._waiting.pop(directive, None)
        return waiting.order if waiting else None

    def overdue(self, now: float) -> list[int]:
        """Remove and return the directives without an answer in time."""
        late = [number for number, each in self._waiting.items() if now - each.since >= ANSWERED_WITHIN_S]
        for number in late:
            del self._waiting[number]
        return late

    def preferring(self, terminal: str) -> bool:
        return self._preferring.get(terminal) in self._waiting

    def ordered_of(self, directive: int) -> str | None:
        """Return the terminal whose last move this directive is, or None."""
        return next((terminal for terminal, last in self._preferring.items() if last == directive), None)

    def arm(self, failover: ArmedFailover, where: Paths, tickets: Tickets, now: float) -> Direct:
        self.arms.arm(failover, now)
        return self.order(failover.order(where), failover.terminal, tickets, now)

    def disarm(self, terminal: str, tickets: Tickets, now: float) -> Iterator[Direct]:
        if self.arms.disarm(terminal, now) and self.agent.connected:
            yield self.order(Disarm(terminal), terminal, tickets, now)

    def repeats(self, event: FailoverFired) -> bool:
        """Return whether the agent repeats an event that was unacknowledged when its stream broke."""
        before = self._fired_at_us.get(event.name, ())
        if event.monotonic_us in before:
            return True
        self._fired_at_us[event.name] = (*before, event.monotonic_us)[-REMEMBERED:]
        return False

    def fired(self, terminal: str, now: float) -> ArmedFailover | None:
        """Return the failover that fired. A terminal's agent can only fire for its own terminals."""
        if self.role is Role.TERMINAL and terminal not in self.agent.owns:
            return None
        waiting = (each.order for each in self._waiting.values())
        arming = any(isinstance(order, Arm) and order.name == terminal for order in waiting)
        return self.arms.fired(terminal, arming, now)

    def doubt(self, event: FailoverFired) -> None:
        """Log an unarmed failover once per session: the agent controls the rate."""
        if not self._doubted:
            message = (
                "agent %s reports that the failover %r fired, which is not armed there; this report and "
                "later ones are ignored"
            )
            log.warning(message, self.name, event.name)
        self._doubted = True

    @property
    def unable(self) -> str | None:
        """The reason why the agent cannot move connections, or None."""
        if not self.agent.connected:
            return "it is not connected"
        if self.agent.silent:
            return "it is silent"
        if not self.agent.knows(MOVES):
            return f"it does not report the capability to move connections ({MOVES})"
        return self.agent.cannot(MOVES)

    def tokens(self, terminal: str) -> Iterable[int]:
        standing = self.standings.get(terminal)
        return standing.connections if standing else ()

    def reach(self, terminal: str) -> Reach:
        others = self.serves_strangers or any(name != terminal for name in self.standings)
        standing = self.standings.get(terminal)
        return Reach(self.name, self.role, self.agent.path_manager, self.unable, standing, others, self.agent.listed)
