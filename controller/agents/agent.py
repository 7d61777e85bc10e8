# SPDX-License-Identifier: Apache-2.0
"""The state of one agent: its session, last report, open orders and armed failovers.

opened ──► reporting ◄──► silent (three periods without a message: its last report no longer counts)
              │
              └──► closed     open orders stay unanswered
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
from controller.policy.paths.uplinks import AddressOwner, Paths, TerminalUplinks, way
from controller.protocol.orders import Arm, Direct, Directive, Disarm, Prefer, Tickets
from controller.protocol.reports import (
    CAPS,
    CLAMPS,
    ELIMINATES,
    INTERCEPTS,
    MEASURES_DISTANCES,
    NARROWS,
    RELAYS,
    TUNNELS,
    AgentOpened,
    Capability,
    Cost,
    FailoverFired,
    LanDevice,
    PathManager,
    Reported,
    Role,
)

# A failover counts once. If its message crossed an order, it belongs to the failover armed before that order.

CROSSED_S = 5.0  # an agent moves the connections before it reports the failover


@dataclass(frozen=True, slots=True)
class Armed:
    failover: ArmedFailover
    at: float
    refused: str | None = None
    renew: bool = False  # the agent may have restarted and lost it

    def stands(self, failover: ArmedFailover, now: float) -> bool:
        return not self.renew and not failover.outdates(self.failover) and now - self.at < failover.renewed_after_s


class Arms:
    """The armed failovers of one agent."""

    def __init__(self) -> None:
        self._armed: dict[str, Armed] = {}
        self._before: dict[str, Armed] = {}  # what the last order replaced, with the time of that order
        self._known: set[str] = set()  # armed or fired in this session

    def __iter__(self) -> Iterator[str]:
        return iter(self._armed)

    def get(self, terminal: str) -> Armed | None:
        return self._armed.get(terminal)

    def opened(self) -> None:
        """Mark every failover for renewal: an agent loses them in a restart."""
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
        armed = self._armed.pop(terminal, None)
        if armed is not None:
            self._before[terminal] = replace(armed, at=now)
        return armed is not None

    def refused(self, terminal: str, why: str) -> None:
        if terminal in self._armed:
            self._armed[terminal] = replace(self._armed[terminal], refused=why)

    def fired(self, terminal: str, arming: bool, now: float) -> ArmedFailover | None:
        """Return the failover that fired, or None. `arming`: the last order to arm has no answer yet.

        A failover disarmed less than CROSSED_S ago counts: the agent has moved, and the gateway must follow.
        """
        before = self._before.pop(terminal, None)
        crossed = before is not None and now - before.at <= CROSSED_S
        if terminal in self._armed and not (arming and crossed):
            self._known.add(terminal)
            return self._armed.pop(terminal).failover
        return before.failover if before and crossed else None

    def fired_unknown(self, terminal: str) -> bool:
        """Return True once per session, before the first order to arm: an earlier run may have armed it."""
        first = terminal not in self._known
        self._known.add(terminal)
        return first


log = logging.getLogger(__name__)

PERIOD_S = 1.0
GONE_AFTER_S = 3 * PERIOD_S
ANSWERS_WITHIN_S = 60.0  # orders run one by one, a few seconds each
REMEMBERED = 8  # per terminal; fewer fire between two reports
MOVES = "mptcp"
NOT_OF_ROLE = {
    Role.TERMINAL: {CAPS, CLAMPS, NARROWS, ELIMINATES, TUNNELS, INTERCEPTS, RELAYS, MEASURES_DISTANCES},
    Role.GATEWAY: {CAPS, CLAMPS, NARROWS, MOVES, RELAYS},
    Role.RELAY: {CAPS, CLAMPS, NARROWS, ELIMINATES, TUNNELS, INTERCEPTS},
}


@dataclass(frozen=True, slots=True)
class Waiting:
    order: Directive
    since: float


class Agent:
    """The state of one agent. None or empty: not reported yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.session: int | None = None
        self.peer = ""
        self.role = Role.GATEWAY
        self.terminal = name  # the one named in its certificate
        self.path_manager = PathManager.KERNEL
        self.version = ""
        self.capabilities: tuple[Capability, ...] = ()
        self.addresses: tuple[str, ...] = ()
        self.since = 0.0  # start of the session, or its end
        self.gone_reason = ""
        self.heard_at: float | None = None
        self.reported_at: float | None = None
        self.reports = 0
        self.cost: Cost | None = None
        self.devices: tuple[LanDevice, ...] = ()  # of the LANs that its host serves
        self.silent = False
        self.ledger: Ledger | None = None
        self.standings: dict[str, TerminalConnections] = {}  # by terminal
        self.listed = False  # in gateway.yaml, or added as a relay
        self.unconfirmed: frozenset[str] = frozenset()  # terminals whose connections no other agent confirms
        self.serves_strangers = False  # MPTCP connections of hosts outside the configuration
        self.homes: dict[str, AddressOwner] = {}  # by address: terminals on this host
        self.owns: tuple[str, ...] = ()  # names of the terminals in `homes`
        self.concerns: frozenset[str] = frozenset()  # terminals whose connections it reports
        self.owns_nobody: str | None = None  # why it speaks for none, or not for all, of the terminals in `homes`
        self.arms = Arms()
        self._doubted = False  # it reported an unarmed failover in this session
        self._waiting: dict[int, Waiting] = {}
        self._preferring: dict[str, int] = {}  # last directive to move a terminal
        self._fired_at_us: dict[str, tuple[int, ...]] = {}  # by terminal

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

    def settle(self, homes: dict[str, AddressOwner], why_not: str | None) -> None:
        owns = tuple(dict.fromkeys(home.terminal.name for home in homes.values()))
        if owns != self.owns:  # otherwise past traffic would count as recent
            self.ledger = None
            self.standings = {name: standing for name, standing in self.standings.items() if name in owns}
        self.homes, self.owns, self.owns_nobody = homes, owns, why_not

    def close(self, reason: str, now: float) -> list[int]:
        """End the session and return its unanswered directives."""
        self.session, self.since, self.gone_reason = None, now, reason
        self._forget()
        lost, self._waiting, self._preferring = list(self._waiting), {}, {}
        return lost

    def seen(self, now: float) -> None:
        self.heard_at, self.silent = now, False

    def report(self, event: Reported, now: float) -> None:
        self.report_again(now)
        self.cost, self.devices = event.cost, event.devices

    def weigh(
        self, event: Reported, sends: bool, homes: Mapping[str, AddressOwner], wanted: Wanted
    ) -> tuple[Mapping[tuple[str, str], UplinkReading], Mapping[str, TerminalUplinks]]:
        ways: dict[str, TerminalUplinks] = {}

        def way_of(home: AddressOwner) -> TerminalUplinks:
            name = home.terminal.name
            if name not in ways:
                ways[name] = way(home.site, home.terminal, wanted)
            return ways[name]

        weighed = weigh(self.ledger, event.connections, event.interval_ms, sends, homes.get, way_of, event.confirmed)
        self.ledger, self.standings = weighed.ledger, weighed.standings
        self.serves_strangers = weighed.serves_strangers
        return weighed.readings, ways

    def report_again(self, now: float) -> None:
        """Count a report without its content: the next report includes it."""
        self.seen(now)
        self.reported_at = now
        self.reports += 1

    def falls_silent(self, now: float) -> bool:
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
        """Remove a directive and return its order, or None if this session did not send it."""
        waiting = self._waiting.pop(directive, None)
        return waiting.order if waiting else None

    def overdue(self, now: float) -> list[int]:
        """Remove and return the directives without an answer in time."""
        late = [number for number, each in self._waiting.items() if now - each.since >= ANSWERS_WITHIN_S]
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
        if self.arms.disarm(terminal, now) and self.session is not None:
            yield self.order(Disarm(terminal), terminal, tickets, now)

    def repeats(self, event: FailoverFired) -> bool:
        """Return whether the agent repeats an event that was unacknowledged when its stream broke."""
        before = self._fired_at_us.get(event.name, ())
        if event.at_us in before:
            return True
        self._fired_at_us[event.name] = (*before, event.at_us)[-REMEMBERED:]
        return False

    def fired(self, terminal: str, now: float) -> ArmedFailover | None:
        """Return the failover that fired. A terminal's agent can only fire for its own terminals."""
        if self.role is Role.TERMINAL and terminal not in self.owns:
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

    # Capabilities

    @property
    def missing(self) -> tuple[Capability, ...]:
        """Missing capabilities that the role needs, except those for caps (features/caps/readout.py)."""
        expected = NOT_OF_ROLE[self.role]
        return tuple(each for each in self.capabilities if not each.available and each.name not in expected)

    @property
    def unable(self) -> str | None:
        """The reason why the agent cannot move connections, or None."""
        if self.session is None:
            return "it is not connected"
        if self.silent:
            return "it is silent"
        for each in self.capabilities:
            if each.name == MOVES:
                return None if each.available else each.reason
        return f"it does not report the capability to move connections ({MOVES})"

    def tokens(self, terminal: str) -> Iterable[int]:
        standing = self.standings.get(terminal)
        return standing.connections if standing else ()

    def reach(self, terminal: str) -> Reach:
        others = self.serves_strangers or any(name != terminal for name in self.standings)
        standing = self.standings.get(terminal)
        return Reach(self.name, self.role, self.path_manager, self.unable, standing, others, self.listed)
