# SPDX-License-Identifier: Apache-2.0
"""Caps on the terminals of access points: reports in, orders out.

The agent that speaks for a terminal reports its traffic; otherwise the gateway's agent reports the traffic that passes.
Caps go to the agent that can enforce them (holder.py). They are renewed before their lease ends and when they change.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import chain

from controller.features.caps.access_point import TICK_S, AccessPointState, Probed
from controller.features.caps.holder import CapExecutor, CapHolder, CapsDraft, hand
from controller.features.caps.readout import told
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
        rides: Callable[[str], str],
        often: Callable[[int], bool],
        probed: Probed,
    ) -> None:
        """The callbacks read other features.

        `speaks_for` returns the terminals that the agent of a session speaks for, `rides` the uplinks that carry a
        terminal's packets. `often` returns whether another feature needs frequent reports, `probed` the rate of an
        access point by packet trains.
        """
        self._tickets, self._speaks_for, self._rides, self._often = tickets, speaks_for, rides, often
        self._probed = probed
        self._here: dict[int, CapHolder] = {}  # by session
        self._places: dict[tuple[str, str], AccessPointState] = {}  # by site and access point; only those with a rule
        self._hands: dict[str, CapExecutor | str] = {}  # by terminal: the agent that holds its caps, or why none does
        self.next_at: float | None = None  # time of the next tend(); None: nothing to do
        self._tended_at = float("-inf")
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._config, before = config, self._places
        ruled = (
            AccessPointState(site, each)
            for site in config.sites
            for each in site.access_points
            if each.rule is not CapRule.OFF
        )
        self._places = {(place.site.name, place.access_point.name): place for place in ruled}
        for at, place in self._places.items():
            if at in before:
                place.resume(before[at])
        self._place_of = {name: place for place in self._places.values() for name in place.terminals}
        self._whose: dict[str, set[str]] = {}  # by address: terminals
        for terminal in chain.from_iterable(site.terminals for site in config.sites):
            for own in terminal.own:
                self._whose.setdefault(str(own.address), set()).add(terminal.name)
        self.next_at = 0.0 if self._here else None
        if not before:
            for who in self._here.values():
                self._say_who_cannot(who)

    # Events of agents

    def whole(self, event: AgentEvent, now: float) -> AgentEvent | None:
        """Return the event for features that expect one report per second. More frequent reports are merged."""
        who = self._here.get(event.session)
        return who.whole(event, now) if who is not None and isinstance(event, Reported) else event

    def on_event(self, event: AgentEvent, now: float) -> None:
        who = self._here.get(event.session)
        match event:
            case AgentOpened(role=Role.TERMINAL | Role.GATEWAY):
                self._here[event.session] = CapHolder(event)
                self._say_who_cannot(self._here[event.session])
            case AgentClosed():
                self._here.pop(event.session, None)
            case Reported() if who:
                self._reported(who, event, now)
            case Resulted() if who:
                self._resulted(who, event, now)
            case _:
                return
        self._wake(now)

    def _reported(self, who: CapHolder, event: Reported, now: float) -> None:
        who.reported(event, now)
        if not self._places:
            return
        if who.role is Role.TERMINAL and who.sees:
            self._seen_by_itself(who, event, now)
        elif who.role is Role.GATEWAY and event.capping is not None:
            self._seen_passing(who, event, now)

    def _seen_by_itself(self, who: CapHolder, event: Reported, now: float) -> None:
        """Record an agent's report about its own terminals.

        Flows from unconfigured addresses of its host are dropped. Flows from the address of a terminal that it does not
        speak for are kept: policy/caps/sharers.py counts them as doubts.
        """
        own = self._spoken_for(who, now)
        flows = of_connections(event.connections) if own else ()
        for name in own:
            place = self._place_of[name]
            theirs = [flow for flow in flows if self._concerns(name, own, flow.terminal_address)]
            if place.meter is not None:
                place.meter.told(name, theirs, event.interval_ms / 1000, now)
            place.heard(place.terminals[name], theirs, who.name, who.period_s, now, event.cut, self._rides(name))

    def _concerns(self, name: str, own: Collection[str], address: str) -> bool:
        whose = self._whose.get(address, set())
        return name in whose or (bool(whose) and whose.isdisjoint(own))

    def _seen_passing(self, who: CapHolder, event: Reported, now: float) -> None:
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
        for place in (each for each in self._places.values() if each.site.name == who.name):
            place.unseen = {
                name: sum(unseen[str(at.address)] for at in terminal.own) for name, terminal in place.terminals.items()
            }
            for terminal in place.terminals.values():
                theirs = [flow for at in terminal.own for flow in by_address.get(str(at.address), ())]
                if place.meter is not None:
                    place.meter.passed(terminal.name, theirs, event.interval_ms / 1000, now)
                itself = own.get(terminal.name)
                if itself is None or not itself.sees or not itself.heard_of_late(now):
                    place.heard(terminal, theirs, None, who.period_s, now, rides=self._rides(terminal.name))

    def _resulted(self, who: CapHolder, event: Resulted, now: float) -> None:
        refused = who.refused
        who.resulted(event, now)
        if who.refused and who.refused != refused:
            log.warning("agent %s could not enforce caps: %s", who.name, who.refused)

    def _say_who_cannot(self, who: CapHolder) -> None:
        needed = (CAPS, CLAMPS) if who.role is Role.TERMINAL else (NARROWS,)
        if self._places and not any(map(who.can, needed)):
            log.info("agent %s reports connections but cannot enforce caps: %s", who.name, who.why_not(*needed))

    def told(self, now: float) -> tuple[AccessPointView, ...]:
        return tuple(told(self._config, self._places, self._hands, self._here, now))

    # Orders

    def tend(self, now: float) -> Iterator[Direct]:
        if self.next_at is None or now < self.next_at:
            return
        self._tended_at = now
        for place in self._places.values():
            place.decide(now, self._probed)
        drafts = self._drafts(now)
        seen = self._speakers(now).values() if self._places else ()
        often = {who.session for who in seen} | drafts.keys()
        for who in self._here.values():
            draft = drafts.get(who.session)
            is_often = who.session in often or self._often(who.session)
            yield from who.tell(is_often, draft.order() if draft else None, self._tickets, now)
        self.next_at = now + TICK_S if self._places else None
        if not self._places and any(not who.rests for who in self._here.values()):
            self.next_at = now + UNDONE_S

    def _wake(self, now: float) -> None:
        soonest = max(now, self._tended_at + SOONEST_S)
        self.next_at = soonest if self.next_at is None else min(self.next_at, soonest)

    def _drafts(self, now: float) -> dict[int, CapsDraft]:
        """Return the orders by session, for every agent with an access point, also if it has no caps to hold."""
        drafts: dict[int, CapsDraft] = {}
        speakers = self._speakers(now)
        self._hands = {}
        for place in self._places.values():
            gateway = self._gateway(place)
            if gateway is not None and gateway.can(NARROWS):
                drafts.setdefault(gateway.session, CapsDraft()).watch(place.ports)
            unheld = place.unheld = set[str]()
            for name in place.terminals:
                own = speakers.get(name)
                chosen = self._hands[name] = hand(place.site, own, gateway, now)
                if not isinstance(chosen, CapExecutor):
                    unheld.add(name)
                itself = own if isinstance(chosen, CapExecutor) and own and chosen.session == own.session else None
                place.held(name, itself.capping.held if itself and itself.capping else None, now)
                windows = place.windows(name)
                if own is not None and own.knows(CAPS, CLAMPS):
                    draft = drafts.setdefault(own.session, CapsDraft())
                    draft.share(place)
                    if own.can(CAPS) or own.can(CLAMPS):
                        draft.hold(name, windows)  # also after a refusal: the order is repeated
                if isinstance(chosen, CapExecutor) and itself is None:
                    drafts[chosen.session].hold(name, windows)
        return drafts

    def _speakers(self, now: float) -> dict[str, CapHolder]:
        """Return the agent that speaks for each terminal with a rule."""
        terminals = (who for who in self._here.values() if who.role is Role.TERMINAL)
        return {name: who for who in terminals for name in self._spoken_for(who, now)}

    def _spoken_for(self, who: CapHolder, now: float) -> list[str]:
        """Return the terminals with a rule that an agent may report.

        An enrolled agent could claim to be a phone without an agent. If the gateway sees the terminal's traffic, only
        the agent of the terminal's own name counts.
        """
        named = ((name, self._place_of.get(name)) for name in self._speaks_for(who.session))
        return [name for name, place in named if place and (name == who.name or not self._is_watched(place, now))]

    def _is_watched(self, place: AccessPointState, now: float) -> bool:
        gateway = self._gateway(place)
        return gateway is not None and gateway.capping is not None and gateway.heard_of_late(now)

    def _gateway(self, place: AccessPointState) -> CapHolder | None:
        there = (who for who in self._here.values() if who.role is Role.GATEWAY and who.name == place.site.name)
        return next(there, None)
