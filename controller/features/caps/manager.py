# SPDX-License-Identifier: Apache-2.0
"""Caps on the terminals of access points: reports in, orders out.

The agent that speaks for a terminal reports its traffic. Without one, the gateway's agent reports the traffic that
passes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import chain

from controller.features.caps.access_point import TICK_S, AccessPointState, Probed
from controller.features.caps.holder import CapExecutor, CapHolder, CapsDraft, cap_executor
from controller.features.caps.readout import access_point_views
from controller.features.caps.view import AccessPointView
from controller.model.config import CapRule, Config
from controller.policy.caps.flows import TcpFlow, of_connections, of_passing
from controller.protocol.orders import Direct, Tickets
from controller.protocol.reports import (
    CAPS,
    CLAMPS,
    NARROWS,
    AgentClosed,
    AgentEvent,
    AgentOpened,
    Reported,
    Resulted,
    Role,
)

log = logging.getLogger(__name__)

SOONEST_S = 0.1  # shortest time between two runs of tend()
SENT_OF_LATE_MS = 1000
UNDONE_S = 1.0  # between two runs while agents still hold caps of removed rules


class CapsManager:
    def __init__(
        self,
        config: Config,
        tickets: Tickets,
        speaks_for: Callable[[int], tuple[str, ...]],
        uplinks_key: Callable[[str], str],
        often: Callable[[int], bool],
        probed: Probed,
    ) -> None:
        """The callbacks read other features.

        `speaks_for` returns the terminals that the agent of a session speaks for. `uplinks_key` returns a key of the
        uplinks that carry a terminal's packets. `often` returns whether another feature needs frequent reports,
        `probed` the rate of an access point by packet trains.
        """
        self._tickets, self._speaks_for, self._uplinks_key, self._often = tickets, speaks_for, uplinks_key, often
        self._probed = probed
        self._here: dict[int, CapHolder] = {}  # by session
        self._access_points: dict[
            tuple[str, str], AccessPointState
        ] = {}  # by site and access point; only those with a rule
        self._executors: dict[
            str, CapExecutor | str
        ] = {}  # by terminal: the agent that holds its caps, or why none does
        self.next_at: float | None = None  # time of the next tend(); None: nothing to do
        self._tended_at = float("-inf")
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._config, before = config, self._access_points
        ruled = (
            AccessPointState(site, each)
            for site in config.sites
            for each in site.access_points
            if each.rule is not CapRule.OFF
        )
        self._access_points = {(state.site.name, state.access_point.name): state for state in ruled}
        for at, state in self._access_points.items():
            if at in before:
                state.resume(before[at])
        self._state_of = {name: state for state in self._access_points.values() for name in state.terminals}
        self._whose: dict[str, set[str]] = {}  # by address: terminals
        for terminal in chain.from_iterable(site.terminals for site in config.sites):
            for own in terminal.own:
                self._whose.setdefault(str(own.address), set()).add(terminal.name)
        self.next_at = 0.0 if self._here else None
        if not before:
            for holder in self._here.values():
                self._log_inability(holder)

    # Events of agents

    def whole(self, event: AgentEvent, now: float) -> AgentEvent | None:
        """Return the event for features that expect one report per second. More frequent reports are merged."""
        holder = self._here.get(event.session)
        return holder.whole(event, now) if holder is not None and isinstance(event, Reported) else event

    def on_event(self, event: AgentEvent, now: float) -> None:
        holder = self._here.get(event.session)
        match event:
            case AgentOpened(role=Role.TERMINAL | Role.GATEWAY):
                self._here[event.session] = CapHolder(event)
                self._log_inability(self._here[event.session])
            case AgentClosed():
                self._here.pop(event.session, None)
            case Reported() if holder:
                self._reported(holder, event, now)
            case Resulted() if holder:
                self._resulted(holder, event, now)
            case _:
                return
        self._wake(now)

    def _reported(self, holder: CapHolder, event: Reported, now: float) -> None:
        holder.reported(event, now)
        if not self._access_points:
            return
        if holder.role is Role.TERMINAL and holder.sees:
            self._record_own_report(holder, event, now)
        elif holder.role is Role.GATEWAY and event.capping is not None:
            self._record_passing(holder, event, now)

    def _record_own_report(self, holder: CapHolder, event: Reported, now: float) -> None:
        """Drop flows of unconfigured addresses.

        Flows of terminals that it does not speak for stay: policy/caps/sharers.py counts them as doubts.
        """
        own = self._spoken_for(holder, now)
        flows = of_connections(event.connections) if own else ()
        for name in own:
            state = self._state_of[name]
            theirs = [flow for flow in flows if self._concerns(name, own, flow.terminal_address)]
            if state.meter is not None:
                state.meter.count_by_agent(name, theirs, event.interval_ms / 1000, now)
            state.on_report(
                state.terminals[name], theirs, holder.name, holder.period_s, now, event.cut, self._uplinks_key(name)
            )

    def _concerns(self, name: str, own: Collection[str], address: str) -> bool:
        whose = self._whose.get(address, set())
        return name in whose or (bool(whose) and whose.isdisjoint(own))

    def _record_passing(self, holder: CapHolder, event: Reported, now: float) -> None:
        assert event.capping is not None
        own = self._speakers(now)
        unseen = Counter(
            one.terminal_address
            for one in event.capping.passing
            if not one.has_scale and one.since_data_ms <= SENT_OF_LATE_MS
        )
        by_address: dict[str, list[TcpFlow]] = {}
        for flow in of_passing(event.capping.passing):
            by_address.setdefault(flow.terminal_address, []).append(flow)
        for state in (each for each in self._access_points.values() if each.site.name == holder.name):
            state.unseen = {
                name: sum(unseen[str(at.address)] for at in terminal.own) for name, terminal in state.terminals.items()
            }
            for terminal in state.terminals.values():
                theirs = [flow for at in terminal.own for flow in by_address.get(str(at.address), ())]
                if state.meter is not None:
                    state.meter.count_by_gateway(terminal.name, theirs, event.interval_ms / 1000, now)
                itself = own.get(terminal.name)
                if itself is None or not itself.sees or not itself.reports_recently(now):
                    state.on_report(
                        terminal, theirs, None, holder.period_s, now, uplinks_key=self._uplinks_key(terminal.name)
                    )

    def _resulted(self, holder: CapHolder, event: Resulted, now: float) -> None:
        refused = holder.refused
        holder.resulted(event, now)
        if holder.refused and holder.refused != refused:
            log.warning("agent %s could not enforce caps: %s", holder.name, holder.refused)

    def _log_inability(self, holder: CapHolder) -> None:
        needed = (CAPS, CLAMPS) if holder.role is Role.TERMINAL else (NARROWS,)
        if self._access_points and not any(map(holder.can, needed)):
            log.info("agent %s reports connections but cannot enforce caps: %s", holder.name, holder.why_not(*needed))

    def view(self, now: float) -> tuple[AccessPointView, ...]:
        return tuple(access_point_views(self._config, self._access_points, self._executors, self._here, now))

    # Orders

    def tend(self, now: float) -> Iterator[Direct]:
        if self.next_at is None or now < self.next_at:
            return
        self._tended_at = now
        for state in self._access_points.values():
            state.decide(now, self._probed)
        drafts = self._drafts(now)
        seen = self._speakers(now).values() if self._access_points else ()
        often = {holder.session for holder in seen} | drafts.keys()
        for holder in self._here.values():
            draft = drafts.get(holder.session)
            is_often = holder.session in often or self._often(holder.session)
            yield from holder.tell(is_often, draft.order() if draft else None, self._tickets, now)
        self.next_at = now + TICK_S if self._access_points else None
        if not self._access_points and any(not holder.rests for holder in self._here.values()):
            self.next_at = now + UNDONE_S

    def _wake(self, now: float) -> None:
        soonest = max(now, self._tended_at + SOONEST_S)
        self.next_at = soonest if self.next_at is None else min(self.next_at, soonest)

    def _drafts(self, now: float) -> dict[int, CapsDraft]:
        """Return the orders by session, also without caps to hold."""
        drafts: dict[int, CapsDraft] = {}
        speakers = self._speakers(now)
        self._executors = {}
        for state in self._access_points.values():
            gateway = self._gateway(state)
            if gateway is not None and gateway.can(NARROWS):
                drafts.setdefault(gateway.session, CapsDraft()).watch(state.ports)
            unheld = state.unheld = set[str]()
            for name in state.terminals:
                own = speakers.get(name)
                chosen = self._executors[name] = cap_executor(state.site, own, gateway, now)
                if not isinstance(chosen, CapExecutor):
                    unheld.add(name)
                itself = own if isinstance(chosen, CapExecutor) and own and chosen.session == own.session else None
                state.held_sockets(name, itself.capping.held_sockets if itself and itself.capping else None, now)
                windows = state.windows(name)
                if own is not None and own.knows(CAPS, CLAMPS):
                    draft = drafts.setdefault(own.session, CapsDraft())
                    draft.share(state)
                    if own.can(CAPS) or own.can(CLAMPS):
                        draft.hold(name, windows)  # also after a refusal: the order is repeated
                if isinstance(chosen, CapExecutor) and itself is None:
                    drafts[chosen.session].hold(name, windows)
        return drafts

    def _speakers(self, now: float) -> dict[str, CapHolder]:
        terminals = (holder for holder in self._here.values() if holder.role is Role.TERMINAL)
        return {name: holder for holder in terminals for name in self._spoken_for(holder, now)}

    def _spoken_for(self, holder: CapHolder, now: float) -> list[str]:
        """Return the terminals with a rule that an agent may report.

        An enrolled agent could claim to be a phone without an agent. If the gateway sees the terminal's traffic, only
        the agent of the terminal's own name counts.
        """
        named = ((name, self._state_of.get(name)) for name in self._speaks_for(holder.session))
        return [name for name, state in named if state and (name == holder.name or not self._is_watched(state, now))]

    def _is_watched(self, state: AccessPointState, now: float) -> bool:
        gateway = self._gateway(state)
        return gateway is not None and gateway.capping is not None and gateway.reports_recently(now)

    def _gateway(self, state: AccessPointState) -> CapHolder | None:
        there = (
            holder for holder in self._here.values() if holder.role is Role.GATEWAY and holder.name == state.site.name
        )
        return next(there, None)
