# SPDX-License-Identifier: Apache-2.0
"""The state of one bridge: observations, program and unconfirmed changes.

        opened ──► reading ──► installing ──► steady
                                   ▲ ▲          │
                                   │ └ a change ┘      refused: the switch sent an error; retried at the next reading

`expected` is the program once every sent message has arrived. OpenFlow keeps the order on one connection, so the next
difference is computed against it without waiting. The switch is read at intervals (pacing.py), for counters and others'
changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial

from controller.model.config import Site
from controller.model.in_force import CopyRateLimit, InForce, Known
from controller.model.observed import Neighbour, Observed, Port
from controller.model.traffic import Family, Protocol
from controller.model.uplink import Uplink
from controller.policy.paths import reachability
from controller.policy.paths.reachability import UplinkReach
from controller.program.compile import compile
from controller.program.diff import Change, ModifyGroup, ModifyMeter, diff
from controller.program.metering import through
from controller.program.program import EMPTY, FlowKey, Installed, PortCounters, Program
from controller.program.readback import remembered
from controller.program.render import describe
from controller.protocol.orders import Tickets
from controller.protocol.switch_messages import (
    Apply,
    Ask,
    AskFar,
    Close,
    Count,
    Effect,
    FarAnswered,
    FlowsLost,
    NeighbourSeen,
    PortsCounted,
    PortSeen,
    Read,
    Solicited,
    SwitchApplied,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)
from controller.switches import neighbours
from controller.switches.duplicate_dpid import DuplicateDpid
from controller.switches.neighbours import Neighbourhood
from controller.switches.pacing import (
    COUNTED_EVERY_S,
    EVERY_S,
    Compilations,
    ReadCache,
    ReadSchedule,
    ReplyTimeouts,
    Seldom,
    SwitchQuery,
)

log = logging.getLogger(__name__)


class GatewayState(StrEnum):
    """The progress of a switch towards its program."""

    ABSENT = "absent"
    READING = "reading"  # no answer yet
    INSTALLING = "installing"  # no answer to the barrier yet
    STEADY = "steady"
    REFUSED = "refused"


LOST_EVERY_S = 1.0  # readings after lost flows
COUNT_EVERY_S = 0.5  # port counters, while packets leave by an uplink
COUNT_IDLE_EVERY_S = 1.0
JUDGE_EVERY_S = 0.1  # while an uplink is suspect
TOLD_EVERY_S = 60.0  # log lines that a switch can cause at any rate


class Switch:
    def __init__(self, site: Site, tickets: Tickets, now: float) -> None:
        self.site = site
        self.observed = Observed()
        self.screened: frozenset[str] = frozenset()  # excluded uplinks; the next settle() applies a change
        self.rates: Mapping[str, CopyRateLimit] = {}  # of copies, set by the core
        self.installed = Installed(EMPTY)  # last reading
        self.session: int | None = None
        self.peer: str | None = None
        self.since = now
        self.last_error: str | None = None
        self.conflicts: tuple[FlowKey, ...] = ()
        self.reconciles = self.changes_sent = self.last_changes = self.refusals = 0
        self._tickets = tickets
        self.duplicate_dpid = DuplicateDpid(tickets)
        self._neighbourhood = Neighbourhood(site)
        self._reach: dict[str, UplinkReach] = {}  # by uplink, for this connection; empty with one uplink
        self._reach_at = self._count_at = now
        self._question_number = 0
        self.dead_changed = False  # since the core last read it
        self._learned = False  # MACs that no program contains yet
        self._port_changes = Compilations()  # in no program yet
        self._advertised = Seldom(neighbours.EVERY_S)
        self._log_limit = Seldom(TOLD_EVERY_S)
        self._doubted = Seldom(EVERY_S)
        self._lost = Seldom(LOST_EVERY_S)
        self._timeouts = ReplyTimeouts()
        self._expected: Program | None = None
        self._agreed = ReadCache()
        self._read_ticket: int | None = None  # None: no open reading
        self._read_asked_at = self.installed_asked_at = now  # last request, last answered one
        self._apply_ticket = 0
        self._applied = True
        self._verified = False
        self._refused = False
        self._corrected = False  # last reading differed
        self._flows_deleted = False  # by others, since the last request
        self._compared_at = float("-inf")  # last full comparison
        self._looks, self._often = ReadSchedule(now), False
        self._counted: Mapping[int, PortCounters] = {}  # since the last reading
        self._counts()

    @property
    def state(self) -> GatewayState:
        if self.session is None:
            return GatewayState.ABSENT
        if self._refused:
            return GatewayState.REFUSED
        if self._expected is None:
            return GatewayState.READING
        return GatewayState.STEADY if self._applied and self._verified else GatewayState.INSTALLING

    def expected(self) -> Program | None:
        return self._expected

    def opened(self, event: SwitchOpened, now: float) -> Iterator[Effect]:
        self.session, self.peer, self.since = event.session, event.peer, now
        self.observed = replace(self.observed, ports=dict(event.ports))
        self._expected, self._verified, self._refused = None, False, False
        self._applied, self._corrected = True, False
        self._neighbourhood.opened()
        self._reach, self.dead_changed = self._reached({}), True
        self._timeouts = ReplyTimeouts()
        for name in self.site.ports:
            if name not in event.ports:
                log.warning(
                    "%s: the switch at %s has no port %s; it is used when it appears", self.site.name, event.peer, name
                )
        yield self._read(now)

    def closed(self, now: float) -> None:
        self.session, self.peer, self._expected, self.since = None, None, None, now

    def silent(self, now: float) -> str | None:
        """Return why to close the connection, or None."""
        if self.duplicate_dpid.silent(now):
            return "did not answer, and the same switch reconnected"
        why = self._timeouts.ended(now)
        if why is not None:
            self.last_error = f"the switch {why}; it was disconnected, and is used again when it reconnects"
        return why

    def read(self, event: SwitchRead, in_force: InForce, now: float) -> Iterator[Effect]:
        if event.ticket != self._read_ticket:
            return
        self._read_ticket = None
        self._timeouts.answered(SwitchQuery.READ)
        foreign_before, self.installed = self.installed.foreign_flows, event.installed
        self._counted = {}
        self.installed_asked_at = self._read_asked_at
        if event.ticket < self._apply_ticket:  # a change went out behind the question
            if not self._verified and self._applied:
                yield self._read(now)
            return
        if self._expected is None:  # MACs from before a restart; newer observations win
            old = remembered(self.site, self.observed.ports, event.installed.program.groups)
            self.observed = replace(self.observed, macs={**old, **self.observed.macs})
        known_to_fail, self._refused = self._refused, False
        # Two differences in a row are the switch's fault only if neither we nor others changed the program.
        excused = known_to_fail or self._learned or self._port_changes.owed or self._flows_deleted
        before, self._expected = self._expected, self._agreed.recognised(event.installed.program)
        as_it_was = self._verified and foreign_before == event.installed.foreign_flows and before == self._expected
        if as_it_was and now - self._compared_at < EVERY_S:
            return  # only for its counters
        self._compared_at = now
        changes = yield from self.settle(in_force, now)
        if not changes:
            self._agreed = ReadCache(event.installed.program, self._expected)
            self.last_error = None
            self._become_verified(now)
        elif self._corrected and not excused:
            what = describe(changes[0], self.observed.ports)
            self._fail(
                f"the switch accepted changes but does not hold them; sending them again has not helped so far: {what}",
                now,
            )
        self._corrected = bool(changes) and not excused

    def applied(self, event: SwitchApplied, now: float) -> Iterator[Effect]:
        if event.ticket != self._apply_ticket:
            self._timeouts.progressed(SwitchQuery.APPLY, now)
            return
        self._timeouts.answered(SwitchQuery.APPLY)
        self._applied = True
        # At most a second away after a deletion. Otherwise deletions would set the pace.
        if not self._verified and not self._refused and self._read_ticket is None and not self._flows_deleted:
            yield self._read(now)

    def refused(self, event: SwitchRefused, now: float) -> Iterator[Effect]:
        self.refusals += 1
        if event.ticket is not None and event.ticket == self._read_ticket:
            self._read_ticket = None
            self._timeouts.answered(SwitchQuery.READ)
            self._fail(f"the switch refused a read request: {event.reason}", now)
        elif event.change is None:  # for example a packet to a removed port
            level = logging.WARNING if self._log_limit.allows(SwitchRefused, now) else logging.DEBUG
            log.log(level, "%s: the switch refused a message: %s", self.site.name, event.reason)
        elif not self._refused:  # later errors follow from the first
            what = describe(event.change, self.observed.ports)
            self._fail(f"the switch refused {what}: {event.reason}", now)
            if isinstance(event.change, ModifyGroup) and self._doubted.allows(self.session, now):
                yield self._read(now)  # most likely another controller deleted the group

    def flows_lost(self, now: float) -> Iterator[Effect]:
        """Read the switch after others deleted our flows: at once, or within a second of the last reading.

        Only after the reading does the switch announce further deletions (edges/openflow/speaker.py).
        """
        if self._log_limit.allows(FlowsLost, now):
            log.warning(
                "%s: flows of this controller were deleted by somebody else; they are sent again", self.site.name
            )
        self._flows_deleted, self._verified, self._corrected = True, False, False
        if self._read_ticket is None and self._lost.allows(self.session, now):
            yield self._read(now)
        else:
            self._looks.hasten(now)

    def _fail(self, error: str, now: float) -> None:
        if error != self.last_error:
            log.error("%s: %s", self.site.name, error)
        self.last_error, self._refused, self._verified, self.since = error, True, False, now
        if not self._flows_deleted:
            self._looks.postponed(now)

    def port_seen(self, event: PortSeen, in_force: InForce, now: float) -> Iterator[Effect]:
        ports = {name: port for name, port in self.observed.ports.items() if name != event.name}
        if event.port:
            ports[event.name] = event.port
        elif event.name in self.site.ports and self._log_limit.allows(event.name, now):
            log.warning("%s: port %s disappeared; it is used again when it returns", self.site.name, event.name)
        self.observed = replace(self.observed, ports=ports)
        if event.name in self.site.ports:
            self._neighbourhood.port_changed(event.name)
            if self._port_changes.at_once(now):
                yield from self.settle(in_force, now)
                yield from self._ask(now)

    def neighbour_seen(self, event: NeighbourSeen, now: float) -> Neighbour:
        where = (self.observed.port_name(event.in_port), event.address)
        for uplink in self.site.uplinks:
            if where in [(uplink.port, hop.address) for hop in uplink.next_hops if hop.mac in (None, event.mac)]:
                self._reached_by(uplink, partial(reachability.near_answered, now=now))
        if self._neighbourhood.accepts(where, event.mac, self.observed.macs.get(where), now):
            self._learn({where: event.mac})
        return where

    def _learn(self, macs: Mapping[Neighbour, str]) -> None:
        """Record MACs for the next rest or tick: hundreds may answer at once."""
        for where, mac in macs.items():
            known = where in self.observed.macs  # a MAC that keeps changing must not fill the log
            log.log(logging.DEBUG if known else logging.INFO, "%s: %s is at %s", self.site.name, where[1], mac)
        self.observed = replace(self.observed, macs={**self.observed.macs, **macs})
        self._learned = True

    def rests_at(self) -> float | None:
        if self.session is None or self._expected is None:
            return None
        due = (self._port_changes.next_at, self._reach_at if self._reach else None)
        return min((at for at in due if at is not None), default=None)

    def rest(self, in_force: InForce, now: float) -> Iterator[Effect]:
        if self._learned or self._port_changes.at_rest(now):
            yield from self.settle(in_force, now)
        if now >= self._reach_at:
            yield from self._look_for_dead(now)

    def solicited(self, event: Solicited, now: float) -> Iterator[Effect]:
        answer = neighbours.advertisement(self.site, self.observed, event)
        if answer and self._advertised.allows((event.in_port, event.target, event.asker), now):
            yield answer

    def tick(self, in_force: InForce, now: float) -> Iterator[Effect]:
        if due := self._neighbourhood.due(now):
            self._learn(due)
        if self._learned or self._port_changes.owed:
            yield from self.settle(in_force, now)
        if self.session is None:
            return
        yield from self._ask(now)
        yield from self._look_for_dead(now)
        if self._looks.due(now) and self._read_ticket is None:
            yield self._read(now)

    def settle(self, in_force: InForce, now: float) -> Generator[Effect, None, tuple[Change, ...]]:
        if self._expected is None or self.session is None:
            return ()
        self._learned = self._port_changes.owed = False
        self.reconciles += 1
        target = self._without_conflicts(compile(self.site, Known(in_force, self.observed, self.screened, self.rates)))
        changes = diff(self._expected, target)
        self._expected = target  # even if equal: the next diff compares identical objects
        self.last_changes = len(changes)
        if not changes:
            return ()
        self._applied, self.since = False, now
        self._apply_ticket = self._tickets.draw()
        self._timeouts.question_sent(SwitchQuery.APPLY, now)
        self.changes_sent += len(changes)
        if any(not isinstance(change, ModifyGroup | ModifyMeter) for change in changes):
            self._verified = False
        yield Apply(self.session, self._apply_ticket, changes)
        return changes

    def count_often(self, often: bool) -> None:
        """Read each second, for decisions that use counters."""
        self._often = often
        self._counts()

    def reconfigure(self, site: Site, in_force: InForce, now: float) -> Iterator[Effect]:
        self.site = site
        self._neighbourhood.reconfigure(site)
        self._reach = self._reached(self._reach)
        self._counts()
        yield from self.settle(in_force, now)

    def _counts(self) -> None:
        self._looks.every_s = COUNTED_EVERY_S if self._often or through(self.site) else EVERY_S

    def _without_conflicts(self, program: Program) -> Program:
        conflicts = tuple(sorted(self.installed.foreign_flows & program.flows.keys(), key=str))
        if conflicts and conflicts != self.conflicts:
            log.error("%s: %d foreign flows take the place of flows of this controller", self.site.name, len(conflicts))
        self.conflicts = conflicts
        if not conflicts:
            return program
        kept = {key: flow for key, flow in program.flows.items() if key not in conflicts}
        return replace(program, flows=kept)

    @property
    def brings_nothing(self) -> dict[str, str]:
        return {name: one.dead for name, one in self._reach.items() if one.dead is not None}

    @property
    def doubts(self) -> dict[str, str]:
        """The uplinks that cannot be judged, with the reasons."""
        return {name: one.doubt for name, one in self._reach.items() if one.doubt is not None}

    def _reached(self, before: Mapping[str, UplinkReach]) -> dict[str, UplinkReach]:
        """Return the states, or nothing with one uplink. A state survives if its targets are the same."""
        if len(self.site.uplinks) < 2:
            return {}
        targets = {uplink.name: tuple(map(str, uplink.reach)) for uplink in self.site.uplinks}
        known = {name: one for name, one in before.items() if targets.get(name) == one.targets}
        return {name: known.get(name) or UplinkReach(there) for name, there in targets.items()}

    def _reached_by(self, uplink: Uplink, change: Callable[[UplinkReach], UplinkReach]) -> None:
        if uplink.name in self._reach:
            self._reach[uplink.name] = change(self._reach[uplink.name])

    @property
    def port_counters(self) -> Mapping[int, PortCounters]:
        """Return the newest counters: ports are counted more often than all flows are read."""
        return {**self.installed.port_counters, **self._counted}

    def ports_counted(self, event: PortsCounted, now: float) -> None:
        self._counted = event.counters
        for uplink in self.site.uplinks:
            port = self.observed.ports.get(uplink.port)
            counters = event.counters.get(port.number) if port is not None else None
            if counters is not None:
                received, sent = counters.received.packets, counters.sent.packets
                self._reached_by(uplink, partial(reachability.counted, received=received, sent=sent, now=now))
        if any(one.suspect_since == now for one in self._reach.values()):
            self._reach_at = now

    def far_answered(self, event: FarAnswered, now: float) -> None:
        name = self.observed.port_name(event.in_port)
        for uplink in self.site.uplinks:
            if uplink.port == name and event.source in uplink.reach:
                self._reached_by(uplink, partial(reachability.far_answered, number=event.number, now=now))

    def _look_for_dead(self, now: float) -> Iterator[Effect]:
        if self.session is None or not self._reach:
            return
        before = self.brings_nothing
        self._reach = reachability.judged(self._reach, now)
        self.dead_changed |= self.brings_nothing.keys() != before.keys()
        for name in reachability.due(self._reach, now):
            yield from self._ask_over(self.site.uplink(name), now)
        if now >= self._count_at:
            busy = any(one.busy for one in self._reach.values())
            self._count_at = now + (COUNT_EVERY_S if busy else COUNT_IDLE_EVERY_S)
            yield Count(self.session)
        suspect = any(one.suspect_since is not None for one in self._reach.values())
        self._reach_at = now + JUDGE_EVERY_S if suspect else self._count_at

    def _ask_over(self, uplink: Uplink, now: float) -> Iterator[Effect]:
        assert self.session is not None
        port, one = self.observed.ports.get(uplink.port), self._reach[uplink.name]
        if port is None:
            return
        self._question_number = (self._question_number + 1) & 0xFFFF
        mac, requests = uplink.mac or port.mac, list[Effect]()
        for hop in uplink.next_hops:
            own = uplink.address(Family.of(hop.address))
            if own is not None and one.near_known:
                requests.append(Ask(self.session, port.number, mac, own.ip, hop.address))
        far = list(self._far_questions(uplink, port, mac))
        self._reach[uplink.name] = reachability.question_sent(
            one, self._question_number, len(requests) + len(far), far=bool(far), now=now
        )
        yield from (*requests, *far)

    def _far_questions(self, uplink: Uplink, port: Port, mac: str) -> Iterator[AskFar]:
        for target in uplink.reach:
            own, hop = uplink.address(Family.of(target)), uplink.next_hop(Family.of(target))
            hop_mac = hop and (hop.mac or self.observed.macs.get((uplink.port, hop.address)))
            if self.session is None or not own or not hop_mac:
                continue
            for protocol in (Protocol.ICMP, Protocol.UDP):  # some networks let only one of them through
                number = self._question_number
                yield AskFar(self.session, port.number, mac, hop_mac, own.ip, target, number, protocol)

    def _read(self, now: float) -> Read:
        assert self.session is not None
        self._read_ticket, self._flows_deleted, self._read_asked_at = self._tickets.draw(), False, now
        self._timeouts.question_sent(SwitchQuery.READ, now)
        self._looks.taken(self.session, now)
        return Read(self.session, self._read_ticket)

    def _become_verified(self, now: float) -> None:
        if not self._verified:
            self._verified, self.since = True, now
            log.info("%s: switch in sync", self.site.name)

    def _ask(self, now: float) -> Iterator[Effect]:
        if self.session is None:
            return
        watched = (
            frozenset(uplink.name for uplink in self.site.uplinks) if len(self.site.uplinks) > 1 else self.screened
        )
        for ask in self._neighbourhood.requests(self.session, self.observed, watched, now):
            for uplink in self.site.uplinks:
                if uplink.port == self.observed.port_name(ask.out_port):
                    self._reached_by(uplink, reachability.near_question_sent)
            yield ask


class Switches(dict[int, Switch]):
    """The switches of the configuration in force, by dpid."""

    def __init__(self, sites: Iterable[Site], tickets: Tickets, now: float) -> None:
        super().__init__((site.dpid, Switch(site, tickets, now)) for site in sites)
        self._tickets = tickets

    def of(self, session: int) -> Switch | None:
        return next((each for each in self.values() if each.session == session), None)

    def ports(self) -> dict[int, Mapping[str, Port]]:
        return {dpid: each.observed.ports for dpid, each in self.items() if each.session is not None}

    def reconfigure(self, sites: Iterable[Site], in_force: InForce, now: float) -> Iterator[Effect]:
        """Apply new sites. A removed site's switch keeps its flows and is disconnected."""
        old = dict(self)
        self.clear()
        for site in sites:
            switch = old.pop(site.dpid, None)
            self[site.dpid] = switch or Switch(site, self._tickets, now)
            if switch is not None:
                yield from switch.reconfigure(site, in_force, now)
        for switch in old.values():
            waiting = switch.duplicate_dpid.leave()
            for session in (switch.session, waiting.session if waiting else None):
                if session is not None:
                    yield Close(session, f"the site {switch.site.name} is no longer in the configuration")
