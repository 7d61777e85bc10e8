# SPDX-License-Identifier: Apache-2.0
"""The core: every switch, agent and override, and the configuration in force.

It runs in one thread (edges/runtime/service.py) and does not depend on OpenFlow, TLS or HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from controller.agents.registry import AgentRegistry
from controller.features.caps.manager import CapsManager
from controller.features.copies.manager import CopiesManager
from controller.features.copies.metered_uplinks import Budgets
from controller.features.peer_sites.manager import PeerSites
from controller.features.probing.manager import ProbingManager
from controller.features.probing.path_record import Estimate, Estimated, PathEstimate
from controller.features.probing.schedule import PathDirection
from controller.features.relays.manager import RelayManager
from controller.features.steering.logbook import By, Logbook, LogEntry, reported_by
from controller.features.steering.manager import SteeringManager
from controller.model.config import Config, ConfigError, Site
from controller.model.in_force import InForce
from controller.model.overrides import Overrides, without
from controller.model.text import counted
from controller.policy.copies.adaptive import CopyDecision
from controller.policy.copies.budget import Moment
from controller.policy.paths.uplinks import AddressOwner, TerminalUplinks, uplinks_key, way
from controller.program.diff import ModifyGroup
from controller.protocol.enrolment import Vouched
from controller.protocol.orders import AgentEffect, Tickets
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, Reported
from controller.protocol.switch_messages import (
    Apply,
    Close,
    Effect,
    FarAnswered,
    FlowsLost,
    NeighbourSeen,
    PortsCounted,
    PortSeen,
    Solicited,
    SwitchApplied,
    SwitchClosed,
    SwitchEvent,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)
from controller.switches.switch import Switch, Switches

log = logging.getLogger(__name__)

# One compilation serves many decisions: a dead path may move hundreds of terminals.

APART_S = 0.05


class PendingSettles:
    def __init__(self) -> None:
        self._owed: dict[int, list[LogEntry]] = {}  # by dpid: log entries that record the result
        self._followed_at: dict[int, float] = {}  # by dpid: the last update of its groups

    def owe(self, dpids: tuple[int, ...], entry: LogEntry) -> None:
        """Schedule updates of these gateways. `entry` records the result at the first, the terminal's own."""
        own, *others = dpids
        self._owed.setdefault(own, []).append(entry)
        for other in others:
            self._owed.setdefault(other, [])

    def due(self, now: float) -> Iterator[tuple[int, list[LogEntry]]]:
        for dpid in [dpid for dpid in self._owed if now >= self._at(dpid)]:
            self._followed_at[dpid] = now
            yield dpid, self._owed.pop(dpid)

    @property
    def next_at(self) -> float | None:
        return min(map(self._at, self._owed), default=None)

    def _at(self, dpid: int) -> float:
        return self._followed_at.get(dpid, -APART_S) + APART_S


def follow(
    switch: Switch, entries: Iterable[LogEntry], in_force: InForce, book: Logbook, now: float
) -> Iterator[Effect]:
    entries, name = list(entries), switch.site.name
    for entry in entries:
        entry.gateway.done, entry.gateway.answer = True, f"gateway {name}: its groups did not have to change"
        if switch.session is None:
            entry.gateway.done, entry.gateway.answer = (
                False,
                (f"gateway {name} is not connected; the change is sent when it connects"),
            )
    for effect in switch.settle(in_force, now):
        if isinstance(effect, Apply):
            number = groups_modified([effect])
            answer = f"gateway {name}: {counted(number, 'groups')} modified"
            book.sent(entries, effect.session, effect.ticket, answer)
        yield effect


def groups_modified(effects: Iterable[Effect]) -> int:
    orders = (effect for effect in effects if isinstance(effect, Apply))
    return sum(isinstance(change, ModifyGroup) for order in orders for change in order.changes)


USED_KEPT_EVERY_S = 60.0
CoreEffect = Effect | AgentEffect | Estimate


class Core:
    def __init__(
        self,
        config: Config,
        in_force: InForce,
        now: float,
        measured: Mapping[PathDirection, PathEstimate] | None = None,
    ) -> None:
        """`measured` holds the last run's estimates, with times of this run's clock."""
        self.config = config
        self.overrides, self.decisions = in_force.overrides, in_force.decisions
        self.config_failures = self.config_loads = 0
        self.config_error: ConfigError | None = None
        self.config_loaded_at = now
        self._tickets = Tickets()
        self.agents = AgentRegistry(config, self._tickets)
        self.peer_sites = PeerSites(config, in_force.decisions.eliminating, self.agents, now)
        self.switches = Switches(map(self.peer_sites.as_copied, config.sites), self._tickets, now)
        self.steering = SteeringManager(config, self.agents, in_force, self._tickets, now)
        self.budgets = Budgets(config, in_force.decisions.used)
        self.copying = CopiesManager(self.agents, self.steering, self.peer_sites, self.budgets, in_force)
        self.probing = ProbingManager(config, self.agents, self._tickets, measured or {}, self._way_of)
        self.caps = CapsManager(
            config,
            self.agents,
            self._uplinks_key_of,
            self.copying.wants_often,
            self.probing.over_air,
        )
        self.relays = RelayManager(config, in_force, self._tickets, self.probing.uplink_bps)
        self.moves = PendingSettles()
        self._moves_by_switch: set[str] = set()  # homes where the switch found a dead uplink
        self._kept_at = now

    @property
    def in_force(self) -> InForce:
        return InForce(self.overrides, self.decisions)

    def handle(self, event: SwitchEvent | AgentEvent | Estimated, now: float) -> Iterator[CoreEffect]:
        if isinstance(event, AgentEvent):
            yield from self._agent(event, now)
        elif isinstance(event, Estimated):
            self.probing.estimated(event, now)
        else:
            yield from self._switch(event, now)

    def _switch(self, event: SwitchEvent, now: float) -> Iterator[CoreEffect]:
        if isinstance(event, SwitchOpened):
            yield from self._opened(event, now)
            return
        switch = self.switches.of(event.session)
        if switch is None:
            for each in self.switches.values():
                each.duplicate_dpid.on_event(event)
            return  # or a late event of a closed connection
        match event:
            case SwitchClosed():
                log.warning("%s: the switch disconnected (%s)", switch.site.name, switch.peer)
                self.steering.logbook.closed(event.session)
                yield from self._left(switch, now)
            case SwitchRead():
                yield from switch.read(event, self.in_force, now)
                ports, asked_at = switch.observed.ports, switch.installed_asked_at
                read = self.copying.read(switch.site, ports, switch.installed, asked_at, self.in_force, now)
                self._apply_copy_decisions(read, now)
                self.budgets.read(switch.site, switch.observed.ports, switch.installed)
                yield from self.within_budgets(now, switch)
            case SwitchApplied():
                self.steering.logbook.applied(event.session, event.ticket)
                yield from switch.duplicate_dpid.answered(event.ticket, switch.peer, now)
                yield from switch.applied(event, now)
            case SwitchRefused():
                self.steering.logbook.refused(event.session, event.ticket, event.reason)
                yield from switch.refused(event, now)
            case FlowsLost():
                yield from switch.flows_lost(now)
            case PortSeen():
                yield from switch.port_seen(event, self.in_force, now)
                yield from self._ports_seen(switch, now)
            case NeighbourSeen():
                where = switch.neighbour_seen(event, now)
                self.peer_sites.neighbour_seen(switch.site, where, event.mac, now)
            case Solicited():
                yield from switch.solicited(event, now)
            case PortsCounted():
                switch.ports_counted(event, now)
            case FarAnswered():
                switch.far_answered(event, now)

    def tick(self, now: float) -> Iterator[CoreEffect]:
        yield from self._steer(self.steering.tick(self.in_force, now), now)
        self._apply_copy_decisions(self.copying.look(self.in_force, now), now)
        yield from self.within_budgets(now)
        yield from self._follow(now)
        for switch in self.switches.values():
            if switch.session is not None and (why := switch.silent(now)) is not None:
                yield Close(switch.session, why)
                self.steering.logbook.closed(switch.session)
                yield from self._left(switch, now)
            switch.duplicate_dpid.forget(now)
            switch.count_often(self.copying.counts(switch.site))
            yield from switch.tick(self.in_force, now)
        yield from self._copy(now)
        yield from self.steering.tend(self.in_force, now)
        self.probing.watched = self.copying.watched
        yield from self.probing.tend(now)
        yield from self.relays.tend(self.in_force, now)

    def rests_at(self) -> float | None:
        due = [switch.rests_at() for switch in self.switches.values()]
        due += [self.moves.next_at, self.caps.next_at, self.copying.next_at]
        return min((at for at in due if at is not None), default=None)

    def rest(self, now: float) -> Iterator[CoreEffect]:
        """Do the work that many events share: after each burst of events, and at rests_at()."""
        self._apply_copy_decisions(self.copying.rest(self.in_force, now), now)
        for switch in self.switches.values():
            yield from switch.rest(self.in_force, now)
        if any(switch.dead_changed for switch in self.switches.values()):
            yield from self._leave_dead(now)
        yield from self._follow(now)
        yield from self.caps.tend(now)

    def _opened(self, event: SwitchOpened, now: float) -> Iterator[CoreEffect]:
        switch = self.switches.get(event.dpid)
        if switch is None:
            reason = f"no site in the configuration has the dpid {event.dpid:016x}; nothing is installed on it"
            yield Close(event.session, reason)  # the edge logs the reason, once per peer
            return
        if switch.session is not None:
            yield from switch.duplicate_dpid.challenge(event, switch.session, now)
        else:
            yield from self._served(switch, event, now)

    def _served(self, switch: Switch, event: SwitchOpened, now: float) -> Iterator[CoreEffect]:
        log.info("%s: switch %016x connected from %s", switch.site.name, event.dpid, event.peer)
        yield from switch.opened(event, now)
        yield from self._ports_seen(switch, now)

    def _left(self, switch: Switch, now: float) -> Iterator[CoreEffect]:
        switch.closed(now)
        newcomer = switch.duplicate_dpid.enter()
        if newcomer is not None:
            yield from self._served(switch, newcomer, now)

    def _ports_seen(self, switch: Switch, now: float) -> Iterator[CoreEffect]:
        yield from self._steer(self.steering.ports_seen(switch.site, switch.observed.ports, self.in_force, now), now)
        yield from self.steering.tend(self.in_force, now)

    def _agent(self, event: AgentEvent, now: float) -> Iterator[CoreEffect]:
        if isinstance(event, AgentOpened):
            before = self.agents.known.get(event.name)
            if before is not None and before.connected:
                yield from self._agent(AgentClosed(before.session, "it has connected again"), now)
        event = self.agents.checked(event, self.overrides.relays, now)
        agent = self.agents.on_event(event, now)
        if agent is None:
            return  # its session has ended
        whole: AgentEvent | None = event
        if isinstance(event, Reported):
            whole = replace(event, interval_ms=agent.whole_ms) if agent.whole_ms is not None else None
        if whole is not None:
            yield from self._steer(self.steering.on_event(whole, agent, self.in_force, now), now)
        self.budgets.on_event(event, agent)
        self.caps.on_event(event, agent, now)
        yield from self.probing.on_event(event, agent, now)
        yield from self.relays.on_event(event, agent, self.in_force, now)
        self._apply_copy_decisions(self.copying.on_event(event, agent, self.in_force, now), now)
        if whole is not None:
            self.peer_sites.on_event(whole, agent, self.in_force, self.switches.ports, now)
            yield from self._copy(now)
        yield from self.steering.tend(self.in_force, now)

    def _way_of(self, home: AddressOwner) -> TerminalUplinks:
        return way(home.site, home.terminal, self.in_force)

    def _uplinks_key_of(self, terminal: str) -> str:
        steered = self.steering.steered[terminal]
        site, switch = steered.site, self.switches[steered.site.dpid]
        up = (uplink for uplink in site.uplinks if uplink.port in switch.observed.ports)
        usable = {one.name for one in up if switch.observed.ports[one.port].up and one.name not in switch.screened}
        return uplinks_key(site, steered.terminal, self.in_force, usable)

    def _copy(self, now: float) -> Iterator[CoreEffect]:
        """Update copies after a change at a peer site.

        A site copies everything only while its peer site eliminates copies. An uplink without incoming copies counts as
        dead.
        """
        yield from self.peer_sites.tend(now)
        if self._others_eliminate(now):
            yield from self.switches.reconfigure(map(self.peer_sites.as_copied, self.config.sites), self.in_force, now)
        yield from self._leave_dead(now)
        for dpid, uplinks in self.peer_sites.screens(now):
            self.switches[dpid].screened = uplinks
            yield from self.switches[dpid].settle(self.in_force, now)

    def _leave_dead(self, now: float) -> Iterator[AgentEffect]:
        for switch in self.switches.values():
            switch.dead_changed = False
        for site, silent in self.peer_sites.silence_changed(self._dead_uplinks):
            yield from self._steer(self.steering.silence(site, silent, self.in_force, now), now)

    def _dead_uplinks(self, site: Site) -> Mapping[str, str] | None:
        """Return the uplinks that the switch found dead, with the reasons.

        None: the switch is not connected, or never found one. Policies then do not move terminals without an agent.
        """
        switch = self.switches.get(site.dpid)
        if switch is None or switch.session is None:
            return None
        found = switch.brings_nothing
        if found:
            self._moves_by_switch.add(site.home)
        return found if site.home in self._moves_by_switch else None

    def _others_eliminate(self, now: float) -> bool:
        changed = self.peer_sites.changed(now)
        if changed:
            self.decisions = replace(self.decisions, eliminating=self.peer_sites.once)
        return changed

    def _steer(self, entries: Iterable[LogEntry], now: float) -> Iterator[AgentEffect]:
        """Send orders to agents at once, and to gateways when no other event waits."""
        for entry in entries:
            active = {**self.decisions.active, entry.terminal: entry.uplink}
            self.decisions = replace(self.decisions, active=active)
            self.moves.owe(self.config.dpids(self.steering.steered[entry.terminal].site), entry)
            yield from self.steering.moved(entry, self.in_force, now)

    def _apply_copy_decisions(self, decisions: Iterable[CopyDecision], now: float) -> None:
        """Apply decisions about copies. The gateways at both ends make copies, so agents get no order."""
        for decision in decisions:
            name = decision.terminal
            does, reason = "copies" if decision.copies else "one path", decision.reason
            log.info("%s: %s, because %s%s", name, does, reason, reported_by(decision.reporters))
            if self.copying.decides_of(name):
                self.decisions = replace(self.decisions, copies={**self.decisions.copies, name: decision.copies})
            entry = self.steering.copied(decision, now)
            self.moves.owe(self.config.dpids(self.steering.steered[name].site), entry)

    def set_time(self, moment: Moment, now: float) -> None:
        """Update the clock of the budgets, which are per day or month. Called once a second."""
        self.budgets.set_time(moment)
        if now - self._kept_at >= USED_KEPT_EVERY_S:
            self.keep_used(now)

    def keep_used(self, now: float) -> None:
        """Save the use of budgets.

        After a restart the switches' counters supply the rest, unless a switch restarts too.
        """
        self._kept_at = now
        if self.budgets.used != self.decisions.used:
            self.decisions = replace(self.decisions, used=self.budgets.used)

    def within_budgets(self, now: float, read: Switch | None = None) -> Iterator[Effect]:
        """Apply budgets. A changed meter restarts its counter, so it changes only right after the switch was read."""
        before, barred = self.in_force, self.budgets.barred
        changed = barred != before.decisions.barred
        if changed:
            self.decisions = replace(self.decisions, barred=barred)
            self.keep_used(now)
            self._apply_copy_decisions(self.copying.bounded(before, self.in_force, now), now)
        for switch in self.switches.values():
            rates = self.budgets.rates(switch.site.home)
            may_change = switch is read or rates.keys() != switch.rates.keys()
            if (may_change and rates != switch.rates) or changed:
                if may_change and rates != switch.rates:
                    switch.rates = rates
                    self.keep_used(now)
                yield from switch.settle(self.in_force, now)

    def _follow(self, now: float) -> Iterator[Effect]:
        for dpid, entries in self.moves.due(now):
            if dpid in self.switches:
                yield from follow(self.switches[dpid], entries, self.in_force, self.steering.logbook, now)

    def reconfigure(self, config: Config, now: float) -> Iterator[CoreEffect]:
        self.peer_sites.reconfigure(config)
        self._others_eliminate(now)
        yield from self.switches.reconfigure(map(self.peer_sites.as_copied, config.sites), self.in_force, now)
        self.config, self.config_error, self.config_loaded_at = config, None, now
        self.config_loads += 1
        self.agents.reconfigure(config)
        self.steering.reconfigure(config, self.in_force, now)
        self.budgets.reconfigure(config)
        self.decisions = self.copying.keep(self.in_force)
        self.caps.reconfigure(config)
        self.probing.reconfigure(config)
        self.relays.reconfigure(config, self.in_force)
        for switch in self.switches.values():
            if switch.session is not None:
                yield from self._ports_seen(switch, now)

    def refuse_config(self, error: ConfigError) -> None:
        self.config_failures += 1
        self.config_error = error
        log.error("the configuration was refused; the last valid one stays in force: %s", error)

    def override(self, overrides: Overrides, entries: Collection[LogEntry] = ()) -> bool:
        """Apply overrides, with the entries of moved terminals. Return whether anything changed."""
        before, moved = self.in_force, {entry.terminal for entry in entries}
        decided = {entry.terminal: entry.uplink for entry in entries if entry.by is By.POLICY}
        active = {**without(self.decisions.active, moved), **decided}
        self.overrides, self.decisions = overrides, replace(self.decisions, active=active)
        self.decisions = self.copying.keep(self.in_force)
        return self.in_force != before

    def vouch(self, vouched: Vouched, now: float) -> Iterator[CoreEffect]:
        yield from self.relays.vouch(vouched, self.in_force, now)
        self.peer_sites.tunnels.vouch(vouched)
        yield from self._copy(now)
