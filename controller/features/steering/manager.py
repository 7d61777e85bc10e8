# SPDX-License-Identifier: Apache-2.0
"""The steering of terminals by connected agents: their reports in, decisions and orders out.

    reported, fired, tick ──► entries (decisions) ──► the core: Decisions.active ──► moved: orders
                                                                                     tend: maintenance

A decision moves both ends at once. The core moves the gateway. This file handles the agents: which one speaks for a
terminal, which one gets an order, and which failovers are armed. A terminal without an agent is not steered, unless
the ends of its uplinks report silent ones. If an agent falls silent, the last decision stays, and its armed failovers
expire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from controller.agents.agent import Agent
from controller.agents.order_slot import ANSWERED_WITHIN_S
from controller.agents.registry import AgentRegistry
from controller.features.steering.logbook import By, Logbook, LogEntry, reported_by
from controller.features.steering.mover import Mover
from controller.features.steering.orders import Orders
from controller.features.steering.terminal import Steered, all_steered, unmovable
from controller.model.config import Config, Site
from controller.model.in_force import InForce
from controller.model.observed import Port
from controller.model.redundancy import PacketUplinks
from controller.policy.copies.adaptive import CopyDecision
from controller.policy.paths.health import SilentUplink
from controller.policy.paths.movers import ReachChoice
from controller.protocol.orders import Arm, Direct, Directive, Disarm, Prefer, Tickets
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, FailoverFired, Reported, Resulted

log = logging.getLogger(__name__)

AIMS: Mapping[type[Directive], str] = {Prefer: "move connections", Arm: "arm failover", Disarm: "disarm failover"}
UNREPORTED_S = 1.5  # a terminal without a report for this long is checked by the clock


class SteeringManager:
    def __init__(self, config: Config, agents: AgentRegistry, in_force: InForce, tickets: Tickets, now: float) -> None:
        self._agents = agents
        self.movers: dict[str, Mover] = {}  # by the agent's name, including disconnected ones
        self.logbook = Logbook()
        self.steered: dict[str, Steered] = {}  # by terminal
        self.paths_reported = False  # a port, failover or end changed a path since the last look
        self._orders = Orders(self.movers, self.logbook, tickets)
        self._touched: dict[str, None] = {}  # terminals to tend, in order
        self._disowned: list[tuple[Mover, tuple[str, ...]]] = []  # agents to disarm, with the terminals
        self._up: dict[str, dict[str, bool]] = {}  # by site: the last state of the uplinks' ports
        self.reconfigure(config, in_force, now)

    def reconfigure(self, config: Config, in_force: InForce, now: float) -> None:
        self.steered = all_steered(config.sites, self.steered, in_force, now)
        self.logbook.keep(self.steered)
        self._up.clear()
        for mover in self.movers.values():
            mover.concerns &= self.steered.keys()  # its next report sets it again
            for name in mover.concerns:
                self.steered[name].attended(mover)
            mover.arms.keep(self.steered)
        self._own(now)

    # Events

    def ports_seen(self, site: Site, ports: Mapping[str, Port], in_force: InForce, now: float) -> list[LogEntry]:
        up = {uplink.name: uplink.port in ports and ports[uplink.port].up for uplink in site.uplinks}
        if self._up.get(site.name) == up:  # a switch may repeat a state a thousand times per second
            return []
        self._up[site.name] = up
        return self._update_all(site, lambda steered: steered.ports_seen(up, now), in_force, now)

    def silence(
        self, site: Site, silent: Mapping[str, SilentUplink] | None, in_force: InForce, now: float
    ) -> list[LogEntry]:
        """Record the silent uplinks of a site; the others deliver. None: no end watches them."""
        return self._update_all(site, lambda steered: steered.silence(silent, now), in_force, now)

    def _update_all(self, site: Site, tell: Callable[[Steered], None], in_force: InForce, now: float) -> list[LogEntry]:
        """Update every terminal of the site, and return the decisions that follow."""
        entries = []
        self.paths_reported = True
        for steered in (self.steered[terminal.name] for terminal in site.terminals):
            tell(steered)
            self._touched[steered.name] = None
            entries += self._decide(steered, in_force, now)
        return entries

    def on_event(self, event: AgentEvent, agent: Agent, in_force: InForce, now: float) -> list[LogEntry]:
        """Return the decisions that follow."""
        mover = self.movers.setdefault(agent.name, Mover(agent))
        match event:
            case AgentOpened():
                mover.open()
                self._own(now)
            case AgentClosed():
                for directive in mover.close():
                    self.logbook.unanswered(directive, f"its session ended before it answered ({event.reason})")
                self._detach(mover, f"agent {agent.name} disconnected", now)
                self._own(now)
            case Reported():
                return self._reported(mover, event, in_force, now)
            case Resulted():
                self._resulted(mover, event, now)
            case FailoverFired():
                return self._fired(mover, event, in_force, now)
        return []

    def _detach(self, mover: Mover, why: str, now: float) -> None:
        """Remove the agent from all terminals that it reports."""
        for name in mover.concerns:
            self._touched[name] = None
            self.steered[name].left(mover, why, now)
        mover.concerns = frozenset()

    def _reported(self, mover: Mover, event: Reported, in_force: InForce, now: float) -> list[LogEntry]:
        speaker = self._agents.speaker(event.session)
        if speaker is None:
            return []
        agent = mover.agent
        readings, ways = mover.weigh(event, *speaker, in_force)
        concerns = frozenset((*agent.owns, *ways))
        for name in mover.concerns - concerns:
            self.steered[name].left(mover, f"agent {agent.name} no longer reports it", now)
        for name in concerns - mover.concerns:
            self.steered[name].attended(mover)
        self._touched |= dict.fromkeys(mover.concerns | concerns)
        mover.concerns = concerns
        for name in concerns:
            self.steered[name].flags_seen(mover, in_force, now)
        before = now - event.interval_ms / 1000
        for (name, uplink), reading in readings.items():
            by_active = ways[name].over is PacketUplinks.ACTIVE
            if not (
                by_active and self.steered[name].moved_since(before)
            ):  # otherwise part of it is about another uplink
                self.steered[name].reported(uplink, reading, agent.name, now)
        return [entry for name in concerns for entry in self._decide(self.steered[name], in_force, now)]

    def _resulted(self, mover: Mover, event: Resulted, now: float) -> None:
        terminal, order = mover.ordered_of(event.directive), mover.answered(event.directive)
        if order is None:
            return
        self.logbook.resulted(event)
        if not event.done:
            log.warning(
                "agent %s could not %s: %s", mover.name, AIMS.get(type(order), "follow its order"), event.answer
            )
        steered = self.steered.get(terminal) if terminal is not None else None
        if steered is not None:  # the terminal may have left the configuration
            reached = event.done or event.connections > 0
            steered.found(mover).answered(event.directive, reached, now)
            if not reached:
                steered.could_not(mover, event.answer, now)
                self._touched[steered.name] = None
        if isinstance(order, Arm) and not event.done:
            mover.arms.refused(order.name, event.answer)

    def _fired(self, mover: Mover, event: FailoverFired, in_force: InForce, now: float) -> list[LogEntry]:
        """Return the entry for the gateway. The agent has already moved its connections."""
        steered = self.steered.get(event.name)
        if steered is not None and mover.repeats(event):
            return []
        expected = steered.expected(mover, in_force, now) if steered else None
        if steered is None or expected is None:
            mover.doubt(event)
            return []
        self.paths_reported = True
        steered.fired(expected, event.stalled_ms, now)
        stalled = f"no progress for {event.stalled_ms} ms with data in flight; {expected.limits}"
        reason = f"{expected.watched} is dead ({stalled})"
        entry = self.logbook.write(event.name, now, By.FAILOVER, expected.fallback, expected.watched, reason, hard=True)
        self.logbook.fired(entry, mover.name, event)
        entry.reporters = (mover.name,)
        log.warning("%s: agent %s moved from %s to %s: %s", event.name, mover.name, entry.left, entry.uplink, reason)
        self._touched[event.name] = None
        steered.attended(mover)
        steered.found(mover).moved()
        mover.concerns |= {event.name}
        if expected.watched != steered.course.active or not steered.is_policies(in_force):
            entry.gateway.done, entry.gateway.answer = (
                True,
                (f"nothing moved: {steered.course.active} was chosen in the meantime"),
            )
            steered.moved_hard(mover, mover.tokens(event.name), now)
            return []
        steered.move(entry.uplink, now)
        return [entry]

    def tick(self, in_force: InForce, now: float) -> list[LogEntry]:
        for mover in self.movers.values():
            for directive in mover.overdue(now):
                self.logbook.unanswered(directive, f"it did not answer within {ANSWERED_WITHIN_S:.0f} s")
        for agent in self._agents.fallen_silent(now):
            mover = self.movers[agent.name]
            mover.forget()
            self._detach(mover, f"agent {agent.name} is silent", now)
        entries = []
        for steered in self.steered.values():
            if (steered.movers or steered.watched) and now - steered.looked_at >= UNREPORTED_S:
                self._touched[steered.name] = None
                entries += self._decide(steered, in_force, now)
        return entries

    def _decide(self, steered: Steered, in_force: InForce, now: float) -> list[LogEntry]:
        steered.passed(now)
        if not steered.is_policies(in_force):
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
            (mover, (terminal,))
            for mover in self.movers.values()  # agents that see its connections are disarmed by tend()
            if mover.agent.alive and mover.name not in steered.movers and mover.arms.get(terminal)
        ]
        return self.logbook.write(terminal, now, By.PEOPLE, uplink, left, "a person requested it", hard=False)

    def released(self, terminal: str, left: str, in_force: InForce, now: float) -> LogEntry:
        """Return the entry for a removed override. `in_force` no longer contains it, so policies choose the uplink."""
        steered = self.steered[terminal]
        steered.start(steered.terminal.default_uplink, now)
        decided = self._decide(steered, in_force, now)
        if decided:
            decided[0].left = left
            return decided[0]
        reason = "a person left it to policies, which have no objection to the default"
        return self.logbook.write(terminal, now, By.PEOPLE, steered.course.active, left, reason, hard=False)

    # Orders

    def touch(self, names: Iterable[str]) -> None:
        self._touched |= dict.fromkeys(names)

    def moved(self, entry: LogEntry, in_force: InForce, now: float) -> Iterator[Direct]:
        return self._orders.move(self.steered[entry.terminal], entry, in_force, now)

    def tend(self, in_force: InForce, now: float) -> Iterator[Direct]:
        disowned, self._disowned = self._disowned, []
        for mover, terminals in disowned:
            yield from self._orders.disarm(mover, terminals, now)
        touched, self._touched = self._touched, {}
        for name in touched:
            steered = self.steered.get(name)
            if steered is not None and steered.movers:
                yield from self._orders.keep(steered, in_force, now)

    def copied(self, decision: CopyDecision, now: float) -> LogEntry:
        """Write a decision about copies. Only gateways carry it out, but failovers are armed again."""
        self._touched[decision.terminal] = None
        return self.logbook.copied(decision, self.steered[decision.terminal].course.active, now)

    def _own(self, now: float) -> None:
        """Take up the changes of ownership: an agent no longer reports, or guards, a terminal that it does not own."""
        for mover in self.movers.values():
            if not mover.agent.connected or mover.agent.owns == mover.owned:
                continue
            mover.own()
            owned = frozenset(mover.owned)
            for name in mover.concerns - owned:
                self._touched[name] = None
                self.steered[name].left(mover, f"agent {mover.name} no longer speaks for it", now)
            mover.concerns &= owned
            disowned = tuple(name for name in mover.arms if name not in owned)
            if disowned:
                self._disowned.append((mover, disowned))
