# SPDX-License-Identifier: Apache-2.0
"""The steering of terminals by connected agents: their reports in, decisions and orders out.

    reported, fired, tick ──► entries (what was decided) ──► the core changes what is wanted ──► moved: orders
                                                                                       tend: what keeps them true

A decision moves both ends at once. The core moves the gateway. This file knows the agents: which one speaks for a
terminal, which one gets an order, and which failovers are armed. Without an agent no terminal is steered, unless the
ends of its uplinks tell which of them are silent. An agent that falls silent moves nothing: the last decision stays,
and its armed failovers run out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from controller.agents.agent import ANSWERS_WITHIN_S, PERIOD_S, Agent
from controller.agents.ownership import AddressIndex, AgentScope, OwnershipArbiter, OwnSideReports, proved_addresses
from controller.features.steering.logbook import By, Logbook, LogEntry, reported_by
from controller.features.steering.orders import Orders
from controller.features.steering.terminal import Steered, all_steered, unmovable
from controller.model.config import Config, Site
from controller.model.known import Port, Wanted
from controller.policy.copies.adaptive import CopyDecision
from controller.policy.paths.health import SilentUplink
from controller.policy.paths.movers import ReachChoice
from controller.policy.paths.uplinks import Leaves
from controller.protocol.orders import Arm, Direct, Directive, Disarm, Prefer, Tickets
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, FailoverFired, Reported, Resulted, Role

log = logging.getLogger(__name__)

AIMS: Mapping[type[Directive], str] = {Prefer: "move connections", Arm: "arm failover", Disarm: "disarm failover"}
UNREPORTED_S = 1.5 * PERIOD_S  # a terminal is looked at with each report of it; by the clock, when none comes


class SteeringManager:
    def __init__(self, config: Config, wanted: Wanted, tickets: Tickets, now: float) -> None:
        self.agents: dict[str, Agent] = {}  # by name; those that have gone stay known
        self.logbook = Logbook()
        self.steered: dict[str, Steered] = {}  # by terminal
        self.told_of_paths = False  # by ports, armed failovers or ends, since somebody looked
        self._orders = Orders(self.agents, self.logbook, tickets)
        self._sessions: dict[int, Agent] = {}
        self._residents = AddressIndex(())
        self._claims = OwnershipArbiter(self._residents)
        self._witnesses = OwnSideReports()
        self._servers: tuple[str, ...] = ()
        self._unlisted = False  # whether a server is here that gateway.yaml does not list
        self._touched: dict[str, None] = {}  # terminals to tend, in order
        self._disowned: list[tuple[Agent, tuple[str, ...]]] = []  # whom to disarm, for these terminals
        self._up: dict[str, dict[str, bool]] = {}  # by site: which uplinks' ports were, when last seen
        self.reconfigure(config, wanted, now)

    def reconfigure(self, config: Config, wanted: Wanted, now: float) -> None:
        self.steered = all_steered(config.sites, self.steered, wanted, now)
        self.logbook.keep(self.steered)
        self._up.clear()
        self._residents = AddressIndex(config.sites)
        self._claims = OwnershipArbiter(self._residents)
        self._servers = config.servers
        self._witnesses.keep(self.steered)
        self._look_for_unlisted()
        for agent in self.agents.values():
            agent.concerns &= self.steered.keys()  # its next report says it anew
            for name in agent.concerns:
                self.steered[name].attended(agent)
            agent.arms.keep(self.steered)
        here = [agent for agent in self._sessions.values() if agent.role is Role.TERMINAL]
        for agent in here:
            self._claims.come(agent.name, agent.terminal, agent.addresses)
        self._settle((agent.name for agent in here), now)

    # Events

    def ports_seen(self, site: Site, ports: Mapping[str, Port], wanted: Wanted, now: float) -> list[LogEntry]:
        up = {uplink.name: uplink.port in ports and ports[uplink.port].up for uplink in site.uplinks}
        if self._up.get(site.name) == up:  # a switch may say the same a thousand times a second
            return []
        self._up[site.name] = up
        return self._all_told(site, lambda steered: steered.ports_seen(up, now), wanted, now)

    def silence(
        self, site: Site, silent: Mapping[str, SilentUplink] | None, wanted: Wanted, now: float
    ) -> list[LogEntry]:
        """Take the uplinks that bring nothing at one of their ends; the others do. None: nobody watches them."""
        return self._all_told(site, lambda steered: steered.silence(silent, now), wanted, now)

    def _all_told(self, site: Site, tell: Callable[[Steered], None], wanted: Wanted, now: float) -> list[LogEntry]:
        entries = []
        self.told_of_paths = True
        for steered in (self.steered[terminal.name] for terminal in site.terminals):
            tell(steered)
            self._touched[steered.name] = None
            entries += self._decided(steered, wanted, now)
        return entries

    def opened(self, event: AgentOpened, now: float) -> None:
        agent = self.agents.setdefault(event.name, Agent(event.name))
        self._gone(agent, "it has connected again", now)
        agent.open(event, now)
        self._sessions[event.session] = agent
        self._look_for_unlisted()
        at_terminal = agent.role is Role.TERMINAL
        claims = self._claims
        self._settle(
            claims.come(agent.name, agent.terminal, agent.addresses) if at_terminal else claims.go(agent.name), now
        )
        log.info("agent %s (%s) is here, from %s", agent.name, agent.role, agent.peer)

    def closed(self, event: AgentClosed, now: float) -> None:
        agent = self._sessions.get(event.session)
        if agent is not None:
            log.warning("agent %s is gone: %s", agent.name, event.reason)
            self._gone(agent, event.reason, now)
            self._settle(self._claims.go(agent.name), now)

    def _gone(self, agent: Agent, why: str, now: float) -> None:
        if agent.session is None:
            return
        del self._sessions[agent.session]
        self._look_for_unlisted()
        for directive in agent.close(why, now):
            self.logbook.unanswered(directive, f"its session ended before it answered ({why})")
        self._leaves(agent, f"agent {agent.name} is gone", now)

    def _leaves(self, agent: Agent, why: str, now: float) -> None:
        for name in agent.concerns:
            self._touched[name] = None
            self.steered[name].left(agent, why, now)
        agent.concerns = frozenset()

    def checked(self, event: AgentEvent, wanted: Wanted, now: float) -> AgentEvent:
        """The event; a server's report with those connections as `confirmed` that count."""
        agent = self._sessions.get(event.session)
        if agent is None or not isinstance(event, Reported):
            return event
        if agent.role is not Role.RELAY:
            if self._unlisted:  # a gateway reports thousands of connections, and as a rule nobody needs a witness
                self._witnesses.report(event, self._residents.own_side(agent.role, agent.name, agent.homes), now)
            return event
        listed = agent.name in self._servers
        agent.listed = listed or agent.name in wanted.relays
        if listed:
            agent.unconfirmed = frozenset()
            return event
        own = proved_addresses(agent.peer, wanted.relays.get(agent.name))
        confirmed, agent.unconfirmed = self._witnesses.confirmed(
            agent.name, own, event.connections, self._residents.alone, now
        )
        return replace(event, confirmed=confirmed)

    def _look_for_unlisted(self) -> None:
        servers = (agent.name for agent in self._sessions.values() if agent.role is Role.RELAY)
        self._unlisted = any(name not in self._servers for name in servers)

    def heard(self, session: int, now: float) -> None:
        """It has reported what the next report tells as well."""
        if session in self._sessions:
            self._sessions[session].report_again(now)

    def reported(self, event: Reported, wanted: Wanted, now: float) -> list[LogEntry]:
        agent = self._sessions.get(event.session)
        if agent is None:
            return []
        agent.report(event, now)
        speaker = self.speaker(event.session)
        if speaker is None:
            return []
        readings, ways = agent.weigh(event, *speaker, wanted)
        concerns = frozenset((*agent.owns, *ways))
        for name in agent.concerns - concerns:
            self.steered[name].left(agent, f"agent {agent.name} sees nothing of it any more", now)
        for name in concerns - agent.concerns:
            self.steered[name].attended(agent)
        self._touched |= dict.fromkeys(agent.concerns | concerns)
        agent.concerns = concerns
        for name in concerns:
            self.steered[name].flags_seen(agent, wanted, now)
        before = now - event.interval_ms / 1000
        for (name, uplink), reading in readings.items():
            by_active = ways[name].leaves is Leaves.BY_ACTIVE
            if not (by_active and self.steered[name].moved_since(before)):  # else part of it was another uplink's
                self.steered[name].reported(uplink, reading, agent.name, now)
        return [entry for name in concerns for entry in self._decided(self.steered[name], wanted, now)]

    def resulted(self, event: Resulted, now: float) -> None:
        agent = self._sessions.get(event.session)
        terminal = agent.ordered_of(event.directive) if agent else None
        order = agent.answered(event.directive) if agent else None
        if agent is None or order is None:
            return
        agent.seen(now)
        self.logbook.resulted(event)
        if not event.done:
            log.warning("agent %s could not %s: %s", agent.name, AIMS.get(type(order), "follow its order"), event.said)
        steered = self.steered.get(terminal) if terminal is not None else None
        if steered is not None:  # it may have left the configuration meanwhile
            reached = event.done or event.connections > 0
            steered.found(agent).answered(event.directive, reached, now)
            if not reached:
                steered.could_not(agent, event.said, now)
                self._touched[steered.name] = None
        if isinstance(order, Arm) and not event.done:
            agent.arms.refused(order.name, event.said)

    def fired(self, event: FailoverFired, wanted: Wanted, now: float) -> list[LogEntry]:
        """The hand has moved already; what is left is to bring the gateway along."""
        agent, steered = self._sessions.get(event.session), self.steered.get(event.name)
        if agent is None or (steered is not None and agent.repeats(event)):
            return []
        expected = steered.expected(agent, wanted, now) if steered else None
        if steered is None or expected is None:
            agent.doubt(event)
            return []
        agent.seen(now)
        self.told_of_paths = True
        steered.fired(expected, event.stalled_ms, now)
        stalled = f"no progress for {event.stalled_ms} ms with data in flight; {expected.limits}"
        reason = f"{expected.watched} is dead ({stalled})"
        entry = self.logbook.write(event.name, now, By.FAILOVER, expected.fallback, expected.watched, reason, hard=True)
        self.logbook.fired(entry, agent.name, event)
        entry.reporters = (agent.name,)
        log.warning("%s: agent %s went from %s to %s: %s", event.name, agent.name, entry.left, entry.uplink, reason)
        self._touched[event.name] = None
        steered.attended(agent)
        steered.found(agent).moved()
        agent.concerns |= {event.name}
        if expected.watched != steered.course.active or not steered.is_policies(wanted):
            entry.gateway.done, entry.gateway.said = True, f"nothing moved: {steered.course.active} was chosen since"
            steered.moved_by_hand(agent, agent.tokens(event.name), now)
            return []
        steered.move(entry.uplink, now)
        return [entry]

    def tick(self, wanted: Wanted, now: float) -> list[LogEntry]:
        for agent in self.agents.values():
            for directive in agent.overdue(now):
                self.logbook.unanswered(directive, f"it did not answer within {ANSWERS_WITHIN_S:.0f} s")
            if agent.falls_silent(now):
                log.warning("agent %s is silent: what it reported counts no more", agent.name)
                self._leaves(agent, f"agent {agent.name} is silent", now)
        entries = []
        for steered in self.steered.values():
            if (steered.agents or steered.watched) and now - steered.looked_at >= UNREPORTED_S:
                self._touched[steered.name] = None
                entries += self._decided(steered, wanted, now)
        return entries

    def _decided(self, steered: Steered, wanted: Wanted, now: float) -> list[LogEntry]:
        steered.passed(now)
        if not steered.is_policies(wanted):
            return []
        left = steered.course.active
        decision = steered.decision(now)
        if decision is None:
            return []
        steered.follow(decision)
        self._touched[steered.name] = None
        name, to = steered.name, decision.prefer
        entry = self.logbook.write(name, now, By.POLICY, to, left, decision.reason, decision.hard)
        entry.reporters = steered.reporters((left, to), now)
        log.info("%s: from %s to %s, because %s%s", name, left, to, decision.reason, reported_by(entry.reporters))
        return [entry]

    # Requests of people

    def choice(self, terminal: str, uplink: str, now: float) -> ReachChoice | None:
        """Who would move it there; None: there is nothing to move."""
        steered = self.steered[terminal]
        return None if unmovable(steered, uplink) else steered.choose(now)

    def wished(self, terminal: str, uplink: str, left: str, now: float) -> LogEntry:
        steered = self.steered[terminal]
        steered.start(uplink, now)
        self._disowned += [
            (agent, (terminal,))
            for agent in self.agents.values()  # those who see a connection of it are disarmed as it is tended
            if agent.alive and agent.name not in steered.agents and agent.arms.get(terminal)
        ]
        return self.logbook.write(terminal, now, By.PEOPLE, uplink, left, "somebody asked for it", hard=False)

    def released(self, terminal: str, left: str, wanted: Wanted, now: float) -> LogEntry:
        """`wanted` has no wish for it any more: it is where policies would have it."""
        steered = self.steered[terminal]
        steered.start(steered.terminal.default_uplink, now)
        decided = self._decided(steered, wanted, now)
        if decided:
            decided[0].left = left
            return decided[0]
        reason = "somebody left it to policies, which know nothing against its default"
        return self.logbook.write(terminal, now, By.PEOPLE, steered.course.active, left, reason, hard=False)

    # Orders

    def touch(self, names: Iterable[str]) -> None:
        self._touched |= dict.fromkeys(names)

    def moved(self, entry: LogEntry, wanted: Wanted, now: float) -> Iterator[Direct]:
        """The other hand of a decision that has been made."""
        return self._orders.move(self.steered[entry.terminal], entry, wanted, now)

    def tend(self, wanted: Wanted, now: float) -> Iterator[Direct]:
        """What keeps decisions true at those who were touched: new connections follow, armed failovers stand."""
        disowned, self._disowned = self._disowned, []
        for agent, terminals in disowned:
            yield from self._orders.disarm(agent, terminals, now)
        touched, self._touched = self._touched, {}
        for name in touched:
            steered = self.steered.get(name)
            if steered is not None and steered.agents:
                yield from self._orders.keep(steered, wanted, now)

    def copied(self, decision: CopyDecision, now: float) -> LogEntry:
        """What was decided of its copies is done by gateways alone; armed failovers are armed anew."""
        self._touched[decision.terminal] = None
        return self.logbook.copied(decision, self.steered[decision.terminal].course.active, now)

    # Ownership

    def speaker(self, session: int) -> AgentScope | None:
        agent = self._sessions.get(session)
        return self._residents.speaker(agent.role, agent.name, agent.homes) if agent is not None else None

    def name_of(self, session: int) -> str | None:
        """The agent of a session that is here."""
        agent = self._sessions.get(session)
        return agent.name if agent is not None else None

    def speaks_for(self, session: int) -> tuple[str, ...]:
        """The terminals that the host of this agent is."""
        agent = self._sessions.get(session)
        return agent.owns if agent else ()

    def _settle(self, names: Iterable[str], now: float) -> None:
        """Those of role terminal for whom somebody who came or went may have changed what they speak for."""
        for agent in (self.agents[name] for name in names):
            agent.settle(self._claims.homes(agent.name), self._claims.why_not(agent.name))
            for name in agent.concerns - set(agent.owns):
                self._touched[name] = None
                self.steered[name].left(agent, f"agent {agent.name} speaks for it no more", now)
            agent.concerns &= frozenset(agent.owns)
            disowned = tuple(name for name in agent.arms if name not in agent.owns)
            if disowned:
                self._disowned.append((agent, disowned))
