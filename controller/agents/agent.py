# SPDX-License-Identifier: Apache-2.0
"""One agent as the core keeps it: its session, last report, orders, and the failover that is armed at it.

opened ──► reporting ◄──► silent (three periods without a report: its last report no longer counts)
              │
              └──► closed     orders without an answer stay unanswered
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from controller.model.known import Wanted
from controller.policy.paths.evidence import Ledger, TerminalConnections, weigh
from controller.policy.paths.failover import ArmedFailover
from controller.policy.paths.health import UplinkReading
from controller.policy.paths.movers import Reach
from controller.policy.paths.uplinks import Home, Paths, Way, way
from controller.protocol.orders import Arm, Direct, Directive, Disarm, Prefer, Tickets
from controller.protocol.reports import (
    CAPS,
    CLAMPS,
    ELIMINATES,
    NARROWS,
    RELAYS,
    TAKES,
    TUNNELS,
    WALKS,
    AgentOpened,
    Capability,
    Cost,
    FailoverFired,
    PathManager,
    Reported,
    Role,
)

# Armed failover of one agent, as ordered
#
# A failover counts once, and only if it was armed. Its message may have crossed an order: then it belongs to the
# failover armed before that order.

CROSSED_S = 5.0  # an agent moves the connections first and reports the failover afterwards


@dataclass(frozen=True, slots=True)
class Armed:
    failover: ArmedFailover
    at: float
    refused: str | None = None
    renew: bool = False  # the hand may have been started anew, and know nothing of it

    def stands(self, failover: ArmedFailover, now: float) -> bool:
        """Whether this one will do where that one is wanted."""
        return not self.renew and not failover.outdates(self.failover) and now - self.at < failover.renewed_after_s


class Arms:
    """By terminal, all of it."""

    def __init__(self) -> None:
        self._armed: dict[str, Armed] = {}
        self._before: dict[str, Armed] = {}  # what the last order replaced or ended, and when it was given
        self._known: set[str] = set()  # what was armed or fired in this session

    def __iter__(self) -> Iterator[str]:
        return iter(self._armed)

    def get(self, terminal: str) -> Armed | None:
        return self._armed.get(terminal)

    def opened(self) -> None:
        """What is armed in the hand has outlived the session before, if the hand itself has: it is armed again soon."""
        self._known.clear()
        self._armed = {name: replace(armed, renew=True) for name, armed in self._armed.items()}

    def keep(self, terminals: Container[str]) -> None:
        self._armed = {name: armed for name, armed in self._armed.items() if name in terminals}
        self._before = {name: armed for name, armed in self._before.items() if name in terminals}

    def arm(self, failover: ArmedFailover, now: float) -> None:
        self.disarm(failover.terminal, now)
        self._armed[failover.terminal] = Armed(failover, now)
        self._known.add(failover.terminal)

    def disarm(self, terminal: str, now: float) -> bool:
        """Whether there was something to disarm."""
        armed = self._armed.pop(terminal, None)
        if armed is not None:
            self._before[terminal] = replace(armed, at=now)
        return armed is not None

    def refused(self, terminal: str, why: str) -> None:
        if terminal in self._armed:
            self._armed[terminal] = replace(self._armed[terminal], refused=why)

    def fired(self, terminal: str, arming: bool, now: float) -> ArmedFailover | None:
        """Which it was; `arming`: the last order to arm it is not answered. None: none that we know of.

        One that was disarmed a moment ago counts: the hand has moved, and the gateway would stay behind.
        """
        before = self._before.pop(terminal, None)
        crossed = before is not None and now - before.at <= CROSSED_S
        if terminal in self._armed and not (arming and crossed):
            self._known.add(terminal)
            return self._armed.pop(terminal).failover
        return before.failover if before and crossed else None

    def fired_unknown(self, terminal: str) -> bool:
        """Whether it may be one that was armed before we were started: once in a session, until we have armed one."""
        first = terminal not in self._known
        self._known.add(terminal)
        return first


log = logging.getLogger(__name__)

PERIOD_S = 1.0  # between reports, as they are asked for
GONE_AFTER_S = 3 * PERIOD_S
ANSWERS_WITHIN_S = 60.0  # an agent carries out one order after the other, each within a few seconds
REMEMBERED = 8  # armed failovers of one terminal that fired: more do not fire between two reports
MOVES = "mptcp"  # the capability
NOT_OF_ROLE = {  # capabilities that nobody misses there
    Role.TERMINAL: {CAPS, CLAMPS, NARROWS, ELIMINATES, TUNNELS, TAKES, RELAYS, WALKS},
    Role.GATEWAY: {CAPS, CLAMPS, NARROWS, MOVES, RELAYS},
    Role.RELAY: {CAPS, CLAMPS, NARROWS, ELIMINATES, TUNNELS, TAKES},
}


@dataclass(frozen=True, slots=True)
class Waiting:
    order: Directive
    since: float


class Agent:
    """`heard_at`, `report` and the like are None or empty until there is such a thing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.session: int | None = None
        self.peer = ""
        self.role = Role.GATEWAY
        self.terminal = name  # of role terminal: the one that it may speak for
        self.path_manager = PathManager.KERNEL
        self.version = ""
        self.capabilities: tuple[Capability, ...] = ()
        self.addresses: tuple[str, ...] = ()
        self.since = 0.0  # of the session, or of its end
        self.gone_because = ""
        self.heard_at: float | None = None
        self.reported_at: float | None = None
        self.reports = 0
        self.cost: Cost | None = None
        self.silent = False
        self.ledger: Ledger | None = None
        self.standings: dict[str, TerminalConnections] = {}  # by terminal
        self.listed = False  # of role relay: gateway.yaml lists it, or people added it as a relay
        self.unconfirmed: frozenset[str] = frozenset()  # terminals of which it reports what nobody else does
        self.serves_strangers = False  # MPTCP connections of nobody in the configuration
        self.homes: dict[str, Home] = {}  # by address: what this host is, where it is a terminal
        self.owns: tuple[str, ...] = ()  # those terminals
        self.concerns: frozenset[str] = frozenset()  # the terminals of which it tells
        self.owns_nobody: str | None = None  # why it is no terminal of ours, or not one of those that it should be
        self.arms = Arms()
        self._doubted = False  # in this session it told of an armed failover that nobody had armed
        self._waiting: dict[int, Waiting] = {}
        self._preferring: dict[str, int] = {}  # by terminal: the last directive that moves it
        self._fired_at_us: dict[str, tuple[int, ...]] = {}  # by terminal: the last armed failovers that it has told of

    @property
    def alive(self) -> bool:
        return self.session is not None and not self.silent

    def open(self, event: AgentOpened, now: float) -> None:
        self.arms.opened()
        self._doubted = False
        self.settle({}, None)
        self.session, self.peer, self.role = event.session, event.peer, event.role
        self.terminal = event.terminal or event.name
        self.path_manager, self.version = event.path_manager, event.version
        self.capabilities, self.addresses = event.capabilities, event.addresses
        self.heard_at, self.since, self.silent = now, now, False

    def settle(self, homes: dict[str, Home], why_not: str | None) -> None:
        owns = tuple(dict.fromkeys(home.terminal.name for home in homes.values()))
        if owns != self.owns:  # what another one has sent until now is no news
            self.ledger = None
            self.standings = {name: standing for name, standing in self.standings.items() if name in owns}
        self.homes, self.owns, self.owns_nobody = homes, owns, why_not

    def close(self, reason: str, now: float) -> list[int]:
        """The directives that will have no answer."""
        self.session, self.since, self.gone_because = None, now, reason
        self._forget()
        lost, self._waiting, self._preferring = list(self._waiting), {}, {}
        return lost

    def seen(self, now: float) -> None:
        self.heard_at, self.silent = now, False

    def report(self, event: Reported, now: float) -> None:
        self.report_again(now)
        self.cost = event.cost

    def weigh(
        self, event: Reported, sends: bool, homes: Mapping[str, Home], wanted: Wanted
    ) -> tuple[Mapping[tuple[str, str], UplinkReading], Mapping[str, Way]]:
        """What it says of which terminals' uplinks, and how these terminals ride."""
        ways: dict[str, Way] = {}

        def way_of(home: Home) -> Way:
            name = home.terminal.name
            if name not in ways:
                ways[name] = way(home.site, home.terminal, wanted)
            return ways[name]

        weighed = weigh(self.ledger, event.connections, event.interval_ms, sends, homes.get, way_of, event.confirmed)
        self.ledger, self.standings = weighed.ledger, weighed.standings
        self.serves_strangers = weighed.serves_strangers
        return weighed.readings, ways

    def report_again(self, now: float) -> None:
        """What the next report tells as well."""
        self.seen(now)
        self.reported_at = now
        self.reports += 1

    def falls_silent(self, now: float) -> bool:
        """Whether it has just been found so."""
        if not self.alive or self.heard_at is None or now - self.heard_at <= GONE_AFTER_S:
            return False
        self.silent = True
        self._forget()
        return True

    def _forget(self) -> None:
        self.ledger, self.standings, self.serves_strangers = None, {}, False
        self.unconfirmed = frozenset()

    # Orders

    def order(self, order: Directive, terminal: str, tickets: Tickets, now: float) -> Direct:
        assert self.session is not None
        directive = tickets.draw()
        self._waiting[directive] = Waiting(order, now)
        if isinstance(order, Prefer):
            self._preferring[terminal] = directive
        return Direct(self.session, directive, order)

    def answered(self, directive: int) -> Directive | None:
        """What it was, if it was asked in this session."""
        waiting = self._waiting.pop(directive, None)
        return waiting.order if waiting else None

    def overdue(self, now: float) -> list[int]:
        """Directives that are waited for no longer: it lives and does not answer."""
        late = [number for number, each in self._waiting.items() if now - each.since >= ANSWERS_WITHIN_S]
        for number in late:
            del self._waiting[number]
        return late

    def preferring(self, terminal: str) -> bool:
        """Whether an order to move this terminal is on its way."""
        return self._preferring.get(terminal) in self._waiting

    def ordered_of(self, directive: int) -> str | None:
        """The terminal that this directive, the last such one, moves."""
        return next((terminal for terminal, last in self._preferring.items() if last == directive), None)

    def arm(self, failover: ArmedFailover, where: Paths, tickets: Tickets, now: float) -> Direct:
        self.arms.arm(failover, now)
        return self.order(failover.order(where), failover.terminal, tickets, now)

    def disarm(self, terminal: str, tickets: Tickets, now: float) -> Iterator[Direct]:
        if self.arms.disarm(terminal, now) and self.session is not None:
            yield self.order(Disarm(terminal), terminal, tickets, now)

    def repeats(self, event: FailoverFired) -> bool:
        """Where a stream ended before an agent could know that we know, it tells again on the next."""
        before = self._fired_at_us.get(event.name, ())
        if event.at_us in before:
            return True
        self._fired_at_us[event.name] = (*before, event.at_us)[-REMEMBERED:]
        return False

    def fired(self, terminal: str, now: float) -> ArmedFailover | None:
        """Which armed failover it was, as far as we know of one; a terminal's agent has none of another's."""
        if self.role is Role.TERMINAL and terminal not in self.owns:
            return None
        waiting = (each.order for each in self._waiting.values())
        arming = any(isinstance(order, Arm) and order.name == terminal for order in waiting)
        return self.arms.fired(terminal, arming, now)

    def doubt(self, event: FailoverFired) -> None:
        """Said once in a session: an agent may tell of it as often as it likes."""
        if not self._doubted:
            said = "agent %s reports that the failover %r fired, which is not armed there; later ones are ignored too"
            log.warning(said, self.name, event.name)
        self._doubted = True

    # Capabilities

    @property
    def missing(self) -> tuple[Capability, ...]:
        """Who holds caps is told where somebody is to (features/caps/readout.py)."""
        expected = NOT_OF_ROLE[self.role]
        return tuple(each for each in self.capabilities if not each.available and each.name not in expected)

    @property
    def unable(self) -> str | None:
        """Why it can move nothing."""
        if self.session is None:
            return "it is not connected"
        if self.silent:
            return "it is silent"
        for each in self.capabilities:
            if each.name == MOVES:
                return None if each.available else each.reason
        return f"it does not say that it can move connections (capability {MOVES})"

    def tokens(self, terminal: str) -> Iterable[int]:
        """The terminal's connections in the last report."""
        standing = self.standings.get(terminal)
        return standing.connections if standing else ()

    def reach(self, terminal: str) -> Reach:
        others = self.serves_strangers or any(name != terminal for name in self.standings)
        standing = self.standings.get(terminal)
        return Reach(self.name, self.role, self.path_manager, self.unable, standing, others, self.listed)
