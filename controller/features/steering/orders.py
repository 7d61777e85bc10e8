# SPDX-License-Identifier: Apache-2.0
"""The orders to agents: to move connections, to move new ones as well, and to arm failover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.agents.agent import Agent
from controller.features.steering.logbook import By, Logbook, LogEntry
from controller.features.steering.terminal import Steered, unmovable
from controller.model.config import Mode
from controller.model.known import Wanted
from controller.policy.paths.movers import ReachChoice, astray
from controller.protocol.orders import Direct, Prefer, Tickets

BEFORE = "it was chosen before the controller restarted"
BY_DEFAULT = "it is relayed, and this is its default"


class Orders:
    def __init__(self, agents: Mapping[str, Agent], logbook: Logbook, tickets: Tickets) -> None:
        self._agents = agents
        self._logbook = logbook
        self._tickets = tickets

    def move(self, steered: Steered, entry: LogEntry, wanted: Wanted, now: float) -> Iterator[Direct]:
        entry.unmoved = unmovable(steered, entry.uplink)
        if entry.unmoved:
            return
        choice = steered.choose(now)
        if not entry.agents:
            entry.unmoved = choice.unmoved
        if steered.standing(wanted) is None:
            yield from self._release(steered, choice, entry, now)
            return
        for name in choice.letting_go:
            yield from self._let_go(steered, self._agents[name], now)
        for name in choice.movers:
            agent = self._agents[name]
            if name in entry.agents:  # its failover moved them; its last report is older
                steered.moved_hard(agent, agent.tokens(entry.terminal), now)
            else:
                yield self._order(steered, agent, entry, steered.prefer(agent, entry.uplink, entry.hard), now)

    def keep(self, steered: Steered, wanted: Wanted, now: float) -> Iterator[Direct]:
        """Maintain decisions: move new connections and renew armed failovers."""
        choice = steered.choose(now)
        yield from self._follow(steered, choice, wanted, now)
        yield from self._arm(steered, choice, wanted, now)

    def _follow(self, steered: Steered, choice: ReachChoice, wanted: Wanted, now: float) -> Iterator[Direct]:
        standing = steered.standing(wanted)
        if standing is None:
            yield from self._give_back_what_is_due(steered, now)
            return
        if standing not in steered.where or wanted.mode(steered.terminal) is Mode.OFF:
            return
        for name in choice.letting_go:
            yield from self._let_go(steered, self._agents[name], now)
        for agent in (self._agents[name] for name in choice.movers):
            seen = agent.standings.get(steered.name)
            if seen is None or agent.preferring(steered.name):
                continue
            if steered.unfollowed(agent, astray(seen, standing), now):
                entry = self._in_force(steered, standing, wanted, now)
                yield self._order(steered, agent, entry, steered.prefer(agent, standing, hard=False), now)

    def _in_force(self, steered: Steered, uplink: str, wanted: Wanted, now: float) -> LogEntry:
        by = By.PEOPLE if wanted.wished(steered.site, steered.terminal) else By.POLICY
        chosen = wanted.standing(steered.site, steered.terminal) is not None
        return self._logbook.standing(steered.name, uplink, by, BEFORE if chosen else BY_DEFAULT, now)

    def disarm(self, agent: Agent, terminals: Iterable[str], now: float) -> Iterator[Direct]:
        for terminal in terminals:
            yield from agent.disarm(terminal, self._tickets, now)

    def _order(self, steered: Steered, agent: Agent, entry: LogEntry, order: Prefer, now: float) -> Direct:
        take = steered.moved_hard if order.hard else steered.unfollowed
        take(agent, agent.tokens(steered.name), now)
        steered.found(agent).moved()
        direct = agent.order(order, steered.name, self._tickets, now)
        self._logbook.ordered(entry, agent.name, direct.directive)
        return direct

    def _release(self, steered: Steered, choice: ReachChoice, entry: LogEntry, now: float) -> Iterator[Direct]:
        """Restore the original flags. An earlier run may have changed unreported ones."""
        for agent in steered.agents.values():
            found = steered.found(agent)
            if agent.unable or not (found.ours or (agent.name in choice.movers and not found.reported_flags)):
                continue
            untold = [name for name in steered.found_backup(agent) if name not in found.reported_flags]
            if untold:
                names = " and ".join(untold)
                entry.reason += f"; {names} stays backup at {agent.name}: its earlier flag is not known"
            yield self._give_back(steered, agent, entry, now)

    def _give_back_what_is_due(self, steered: Steered, now: float) -> Iterator[Direct]:
        """Restore the original flags at agents that were away or could not do so."""
        for agent in steered.agents.values() if steered.where else ():
            if steered.found(agent).is_due(now) and not agent.preferring(steered.name) and not agent.unable:
                yield self._give_back(steered, agent, self._logbook.last(steered.name), now)

    def _give_back(self, steered: Steered, agent: Agent, entry: LogEntry | None, now: float) -> Direct:
        direct = agent.order(steered.give_back(agent), steered.name, self._tickets, now)
        steered.found(agent).gives_back(direct.directive, now)
        if entry is not None:
            self._logbook.ordered(entry, agent.name, direct.directive)
        return direct

    def _let_go(self, steered: Steered, agent: Agent, now: float) -> Iterator[Direct]:
        seen = agent.standings.get(steered.name)
        held = seen.connections if seen else {}
        flagged = [token for token, subflows in held.items() if any(each.by_us for each in subflows)]
        if steered.unfollowed(agent, flagged, now):
            steered.found(agent).moved()
            yield agent.order(steered.let_go(agent), steered.name, self._tickets, now)

    def _arm(self, steered: Steered, choice: ReachChoice, wanted: Wanted, now: float) -> Iterator[Direct]:
        for agent in steered.agents.values():
            armed = agent.arms.get(steered.name)
            due = agent.name in choice.guards and steered.is_policies(wanted)
            failover = steered.failover(agent, wanted, now) if due else None
            if failover is None:
                yield from agent.disarm(steered.name, self._tickets, now)
                continue
            stands = armed is not None and armed.stands(failover, now)
            if not stands and steered.name in agent.standings:  # without connections there is nothing to fail over
                yield agent.arm(failover, steered.where_of(agent), self._tickets, now)
