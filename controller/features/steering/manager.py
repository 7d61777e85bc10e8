# SPDX-License-Identifier: Apache-2.0
"""The steering of terminals by connected agents: their reports in, decisions and orders out.

    reported, fired, tick ──► entries (decisions) ──► the core changes the wanted state ──► moved: orders
                                                                                            tend: maintenance

A decision moves both ends at once. The core moves the gateway. This file handles the agents: which one speaks for a
terminal, which one gets an order, and which failovers are armed. A terminal without an agent is not steered, unless
the ends of its uplinks report silent ones. If an agent falls silent, the last decision stays, and its armed failovers
expire.
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
UNREPORTED_S = 1.5 * PERIOD_S  # a terminal without a report for this long is checked by the clock


class SteeringManager:
    def __init__(self, config: Config, wanted: Wanted, tickets: Tickets, now: float) -> None:
        self.agents: dict[str, Agent] = {}  # by name, including disconnected ones
        self.logbook = Logbook()
        self.steered: dict[str, Steered] = {}  # by terminal
        self.paths_reported = False  # a port, failover or end changed a path since the last look
        self._orders = Orders(self.agents, self.logbook, tickets)
        self._sessions: dict[int, Agent] = {}
        self._residents = AddressIndex(())
        self._claims = OwnershipArbiter(self._residents)
        self._witnesses = OwnSideReports()
        self._servers: tuple[str, ...] = ()
        self._unlisted = False  # a connected server is not in gateway.yaml
        self._touched: dict[str, None] = {}  # terminals to tend, in order
        self._disowned: list[tuple[Agent, tuple[str, ...]]] = []  # agents to disarm, with the terminals
        self._up: dict[str, dict[str, bool]] = {}  # by site: the last state of the uplinks' ports
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
            agent.concerns &= self.steered.keys()  # its next report sets it again
            for name in agent.concerns:
                self.steered[name].attended(agent)
            agent.arms.keep(self.steered)
        here = [agent for agent in self._sessions.values() if agent.role is Role.TERMINAL]
        for agent in here:
            self._claims.come(agent.name, agent.terminal, agent.addresses)
        self._settle_ownership((agent.name for agent in here), now)

    # Events

    def ports_seen(self, site: Site, ports: Mapping[str, Port], wanted: Wanted, now: float) -> list[LogEntry]:
        up = {uplink.name: uplink.port in ports and ports[uplink.port].up for uplink in site.uplinks}
        if self._up.get(site.name) == up:  # a switch may repeat a state a thousand times per second
            return []
        self._up[site.name] = up
        return self._update_all(site, lambda steered: steered.ports_seen(up, now), wanted, now)

    def silence(
        self, site: Site, silent: Mapping[str, SilentUplink] | None, wanted: Wanted, now: float
    ) -> list[LogEntry]:
        """Record the silent uplinks of a site; the others deliver. None: no end watches them."""
        return self._update_all(site, lambda steered: steered.silence(silent, now), wanted, now)

    def _update_all(self, site: Site, tell: Callable[[Steered], None], wanted: Wanted, now: float) -> list[LogEntry]:
        """Update every terminal of the site, and return the decisions that follow."""
        entries = []
        self.paths_reported = True
        for steered in (self.steered[terminal.name] for terminal in site.terminals):
            tell(steered)
            self._touched[steered.name] = None
            entries += self._decide(steered, wanted, now)
        return entries

    def opened(self, event: AgentOpened, now: float) -> None:
        agent = self.agents.setdefault(event.name, Agent(event.name))
        self._end_session(agent, "it has connected again", now)
        agent.open(event, now)
        self._sessions[event.session] = agent
        self._look_for_unlisted()
        at_terminal = agent.role is Role.TERMINAL
        claims = self._claims
        self._settle_ownership(
            claims.come(agent.name, agent.terminal, agent.addresses) if at_terminal else claims.go(agent.name), now
        )
        log.info("agent %s (%s) connected from %s", agent.name, agent.role, agent.peer)

    def closed(self, event: AgentClosed, now: float) -> None:
        agent = self._sessions.get(event.session)
        if agent is not None:
            log.warning("agent %s disconnected: %s", agent.name, event.reason)
            self._end_session(agent, event.reason, now)
            self._settle_ownership(self._claims.go(agent.name), now)

    def _end_session(self, agent: Agent, why: str, now: float) -> None:
        if agent.session is None:
            return
        del self._sessions[agent.session]
        self._look_for_unlisted()
        for directive in agent.close(why, now):
            self.logbook.unanswered(directive, f"its session ended before it answered ({why})")
        self._detach(agent, f"agent {agent.name} disconnected", now)

    def _detach(self, agent: Agent, why: str, now: float) -> None:
        """Remove the agent from all terminals that it reports."""
        for name in agent.concerns:
            self._touched[name] = None
            self.steered[name].left(agent, why, now)
        agent.concerns = frozenset()

    def checked(self, event: AgentEvent, wanted: Wanted, now: float) -> AgentEvent:
        """Return the event. In a server's report, `confirmed` holds the connections that count."""
        agent = self._sessions.get(event.session)
        if agent is None or not isinstance(event, Reported):
            return event
        if agent.role is not Role.RELAY:
            if self._unlisted:  # costly: a gateway reports thousands of connections
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

    def on_early_report(self, session: int, now: float) -> None:
        """Count a report whose content the next report includes."""
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
            self.steered[name].left(agent, f"agent {agent.name} no longer reports it", now)
        for name in concerns - agent.concerns:
            self.steered[name].attended(agent)
        self._touched |= dict.fromkeys(agent.concerns | concerns)
        agent.concerns = concerns
        for name in concerns:
            self.steered[name].flags_seen(agent, wanted, now)
        before = now - event.interval_ms / 1000
        for (name, uplink), reading in readings.items():
            by_active = ways[name].leaves is Leaves.BY_ACTIVE
            if not (
                by_active and self.steered[name].moved_since(before)
            ):  # otherwise part of it is about another uplink
                self.steered[name].reported(uplink, reading, agent.name, now)
        return [entry for name in concerns for entry in self._decide(self.steered[name], wanted, now)]

    def resulted(self, event: Resulted, now: float) -> None:
        agent = self._sessions.get(event.session)
        terminal = agent.ordered_of(event.directive) if agent else None
        order = agent.answered(event.directive) if agent else None
        if agent is None or order is None:
            return
        agent.seen(now)
        self.logbook.resulted(event)
        if not event.done:
            log.warning(
                "agent %s could not %s: %s", agent.name, AIMS.get(type(order), "follow its order"), event.answer
            )
        steered = self.steered.get(terminal) if terminal is not None else None
        if steered is not None:  # the terminal may have left the configuration
            reached = event.done or event.connections > 0
            steered.found(agent).answered(event.directive, reached, now)
            if not reached:
                steered.could_not(agent, event.answer, now)
                self._touched[steered.name] = None
        if isinstance(order, Arm) and not event.done:
            agent.arms.refused(order.name, event.answer)

    def fired(self, event: FailoverFired, wanted: Wanted, now: float) -> list[LogEntry]:
        """Return the entry for the gateway. The agent has already moved its connections."""
        agent, steered = self._sessions.get(event.session), self.steered.get(event.name)
        if agent is None or (steered is not None and agent.repeats(event)):
            return []
        expected = steered.expected(agent, wanted, now) if steered else None
        if steered is None or expected is None:
            agent.doubt(event)
            return []
        agent.seen(now)
        self.paths_reported = True
        steered.fired(expected, event.stalled_ms, now)
        stalled = f"no progress for {event.stalled_ms} ms with data in flight; {expected.limits}"
        reason = f"{expected.watched} is dead ({stalled})"
        entry = self.logbook.write(event.name, now, By.FAILOVER, expected.fallback, expected.watched, reason, hard=True)
        self.logbook.fired(entry, agent.name, event)
        entry.reporters = (agent.name,)
        log.warning("%s: agent %s moved from %s to %s: %s", event.name, agent.name, entry.left, entry.uplink, reason)
        self._touched[event.name] = None
        steered.attended(agent)
        steered.found(agent).moved()
        agent.concerns |= {event.name}
        if expected.watched != steered.course.active or not steered.is_policies(wanted):
            entry.gateway.done, entry.gateway.answer = (
                True,
                (f"nothing moved: {steered.course.active} was chosen in the meantime"),
            )
            steered.moved_hard(agent, agent.tokens(event.name), now)
            return []
        steered.move(entry.uplink, now)
        return [entry]

    def tick(self, wanted: Wanted, now: float) -> list[LogEntry]:
        for agent in self.agents.values():
            for directive in agent.overdue(now):
                self.logbook.unanswered(directive, f"it did not answer within {ANSWERS_WITHIN_S:.0f} s")
            if agent.falls_silent(now):
                log.warning("agent %s is silent: its earlier reports are discarded", agent.name)
                self._detach(agent, f"agent {agent.name} is silent", now)
        entries = []
        for steered in self.steered.values():
            if (steered.agents or steered.watched) and now - steered.looked_at >= UNREPORTED_S:
                self._touched[steered.name] = None
                entries += self._decide(steered, wanted, now)
        return entries

    def _decide(self, steered: Steered, wanted: Wanted, now: float) -> list[LogEntry]:
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
        """Return the agents that would move the terminal, or None if there is nothing to move."""
        steered = self.steered[terminal]
        return None if unmovable(steered, uplink) else steered.choose(now)

    def wished(self, terminal: str, uplink: str, left: str, now: float) -> LogEntry:
        steered = self.steered[terminal]
        steered.start(uplink, now)
        self._disowned += [
            (agent, (terminal,))
            for agent in self.agents.values()  # agents that see its connections are disarmed by tend()
            if agent.alive and agent.name not in steered.agents and agent.arms.get(terminal)
        ]
        return self.logbook.write(terminal, now, By.PEOPLE, uplink, left, "a person requested it", hard=False)

    def released(self, terminal: str, left: str, wanted: Wanted, now: float) -> LogEntry:
        """Return the entry for a removed override. `wanted` no longer contains it, so policies choose the uplink."""
        steered = self.steered[terminal]
        steered.start(steered.terminal.default_uplink, now)
        decided = self._decide(steered, wanted, now)
        if decided:
            decided[0].left = left
            return decided[0]
        reason = "a person left it to policies, which have no objection to the default"
        return self.logbook.write(terminal, now, By.PEOPLE, steered.course.active, left, reason, hard=False)

    # Orders

    def touch(self, names: Iterable[str]) -> None:
        self._touched |= dict.fromkeys(names)

    def moved(self, entry: LogEntry, wanted: Wanted, now: float) -> Iterator[Direct]:
        return self._orders.move(self.steered[entry.terminal], entry, wanted, now)

    def tend(self, wanted: Wanted, now: float) -> Iterator[Direct]:
        disowned, self._disowned = self._disowned, []
        for agent, terminals in disowned:
            yield from self._orders.disarm(agent, terminals, now)
        touched, self._touched = self._touched, {}
        for name in touched:
            steered = self.steered.get(name)
            if steered is not None and steered.agents:
                yield from self._orders.keep(steered, wanted, now)

    def copied(self, decision: CopyDecision, now: float) -> LogEntry:
        """Write a decision about copies. Only gateways carry it out, but failovers are armed again."""
        self._touched[decision.terminal] = None
        return self.logbook.copied(decision, self.steered[decision.terminal].course.active, now)

    # Ownership

    def speaker(self, session: int) -> AgentScope | None:
        agent = self._sessions.get(session)
        return self._residents.speaker(agent.role, agent.name, agent.homes) if agent is not None else None

    def name_of(self, session: int) -> str | None:
        """Return the name of a session's agent, or None."""
        agent = self._sessions.get(session)
        return agent.name if agent is not None else None

    def speaks_for(self, session: int) -> tuple[str, ...]:
        agent = self._sessions.get(session)
        return agent.owns if agent else ()

    def _settle_ownership(self, names: Iterable[str], now: float) -> None:
        for agent in (self.agents[name] for name in names):
            agent.settle(self._claims.homes(agent.name), self._claims.why_not(agent.name))
            for name in agent.concerns - set(agent.owns):
                self._touched[name] = None
                self.steered[name].left(agent, f"agent {agent.name} no longer speaks for it", now)
            agent.concerns &= frozenset(agent.owns)
            disowned = tuple(name for name in agent.arms if name not in agent.owns)
            if disowned:
                self._disowned.append((agent, disowned))
