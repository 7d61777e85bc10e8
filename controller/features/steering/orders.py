# SPDX-License-Identifier: Apache-2.0
"""The orders to agents: to move connections, to move new ones as well, and to arm failover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.features.steering.logbook import By, Logbook, LogEntry
from controller.features.steering.mover import Mover
from controller.features.steering.terminal import Steered, unmovable
from controller.model.config import Mode
from controller.model.in_force import InForce
from controller.policy.paths.movers import ReachChoice, astray
from controller.protocol.orders import Direct, Prefer, Tickets

BEFORE = "it was chosen before the controller restarted"
BY_DEFAULT = "it is relayed, and this is its default"


class Orders:
    def __init__(self, movers: Mapping[str, Mover], logbook: Logbook, tickets: Tickets) -> None:
        self._movers = movers
        self._logbook = logbook
        self._tickets = tickets

    def move(self, steered: Steered, entry: LogEntry, in_force: InForce, now: float) -> Iterator[Direct]:
        entry.unmoved = unmovable(steered, entry.uplink)
        if entry.unmoved:
            return
        choice = steered.choose(now)
        if not entry.agents:
            entry.unmoved = choice.unmoved
        if steered.standing(in_force) is None:
            yield from self._release(steered, choice, entry, now)
            return
        for name in choice.letting_go:
            yield from self._let_go(steered, self._movers[name], now)
        for name in choice.movers:
            mover = self._movers[name]
            if name in entry.agents:  # its failover moved them; its last report is older
                steered.moved_hard(mover, mover.tokens(entry.terminal), now)
            else:
                yield self._order(steered, mover, entry, steered.prefer(mover, entry.uplink, entry.hard), now)

    def keep(self, steered: Steered, in_force: InForce, now: float) -> Iterator[Direct]:
        """Maintain decisions: move new connections and renew armed failovers."""
        choice = steered.choose(now)
        yield from self._follow(steered, choice, in_force, now)
        yield from self._arm(steered, choice, in_force, now)

    def _follow(self, steered: Steered, choice: ReachChoice, in_force: InForce, now: float) -> Iterator[Direct]:
        standing = steered.standing(in_force)
        if standing is None:
            yield from self._give_back_what_is_due(steered, now)
            return
        if standing not in steered.where or in_force.overrides.mode(steered.terminal) is Mode.OFF:
            return
        for name in choice.letting_go:
            yield from self._let_go(steered, self._movers[name], now)
        for mover in (self._movers[name] for name in choice.movers):
            seen = mover.standings.get(steered.name)
            if seen is None or mover.preferring(steered.name):
                continue
            if steered.unfollowed(mover, astray(seen, standing), now):
                entry = self._in_force(steered, standing, in_force, now)
                yield self._order(steered, mover, entry, steered.prefer(mover, standing, hard=False), now)

    def _in_force(self, steered: Steered, uplink: str, in_force: InForce, now: float) -> LogEntry:
        by = By.PEOPLE if in_force.wished(steered.site, steered.terminal) else By.POLICY
        chosen = in_force.standing(steered.site, steered.terminal) is not None
        return self._logbook.standing(steered.name, uplink, by, BEFORE if chosen else BY_DEFAULT, now)

    def disarm(self, mover: Mover, terminals: Iterable[str], now: float) -> Iterator[Direct]:
        for terminal in terminals:
            yield from mover.disarm(terminal, self._tickets, now)

    def _order(self, steered: Steered, mover: Mover, entry: LogEntry, order: Prefer, now: float) -> Direct:
        take = steered.moved_hard if order.hard else steered.unfollowed
        take(mover, mover.tokens(steered.name), now)
        steered.found(mover).moved()
        direct = mover.order(order, steered.name, self._tickets, now)
        self._logbook.ordered(entry, mover.name, direct.directive)
        return direct

    def _release(self, steered: Steered, choice: ReachChoice, entry: LogEntry, now: float) -> Iterator[Direct]:
        """Restore the original flags. An earlier run may have changed unreported ones."""
        for mover in steered.movers.values():
            found = steered.found(mover)
            if mover.unable or not (found.ours or (mover.name in choice.movers and not found.reported_flags)):
                continue
            untold = [name for name in steered.found_backup(mover) if name not in found.reported_flags]
            if untold:
                names = " and ".join(untold)
                entry.reason += f"; {names} stays backup at {mover.name}: its earlier flag is not known"
            yield self._give_back(steered, mover, entry, now)

    def _give_back_what_is_due(self, steered: Steered, now: float) -> Iterator[Direct]:
        """Restore the original flags at agents that were away or could not do so."""
        for mover in steered.movers.values() if steered.where else ():
            if steered.found(mover).is_due(now) and not mover.preferring(steered.name) and not mover.unable:
                yield self._give_back(steered, mover, self._logbook.last(steered.name), now)

    def _give_back(self, steered: Steered, mover: Mover, entry: LogEntry | None, now: float) -> Direct:
        direct = mover.order(steered.give_back(mover), steered.name, self._tickets, now)
        steered.found(mover).gives_back(direct.directive, now)
        if entry is not None:
            self._logbook.ordered(entry, mover.name, direct.directive)
        return direct

    def _let_go(self, steered: Steered, mover: Mover, now: float) -> Iterator[Direct]:
        seen = mover.standings.get(steered.name)
        held = seen.connections if seen else {}
        flagged = [token for token, subflows in held.items() if any(each.by_us for each in subflows)]
        if steered.unfollowed(mover, flagged, now):
            steered.found(mover).moved()
            yield mover.order(steered.let_go(mover), steered.name, self._tickets, now)

    def _arm(self, steered: Steered, choice: ReachChoice, in_force: InForce, now: float) -> Iterator[Direct]:
        for mover in steered.movers.values():
            armed = mover.arms.get(steered.name)
            due = mover.name in choice.guards and steered.is_policies(in_force)
            failover = steered.failover(mover, in_force, now) if due else None
            if failover is None:
                yield from mover.disarm(steered.name, self._tickets, now)
                continue
            stands = armed is not None and armed.stands(failover, now)
            if not stands and steered.name in mover.standings:  # without connections there is nothing to fail over
                yield mover.arm(failover, steered.where_of(mover), self._tickets, now)
