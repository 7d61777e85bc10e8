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

from controller.agents.agent import Agent
from controller.agents.order_kinds import REPORT_INTERVAL, WINDOW_CAPS
from controller.agents.registry import AgentRegistry
from controller.features.caps.access_point import TICK_S, AccessPointState, Probed
from controller.features.caps.draft import CapsDraft
from controller.features.caps.executor import (
    OF_GATEWAYS,
    OF_TERMINALS,
    CapExecutor,
    cap_executor,
    capping,
    incapable,
)
from controller.features.caps.readout import access_point_views
from controller.features.caps.view import AccessPointView
from controller.model.config import CapRule, Config
from controller.policy.caps.flows import TcpFlow, of_connections, of_passing
from controller.protocol.orders import Direct, ReportEvery
from controller.protocol.reports import NARROWS, REPORTS, AgentEvent, AgentOpened, Reported, Role

log = logging.getLogger(__name__)

OFTEN = ReportEvery(250)
SOONEST_S = 0.1  # shortest time between two runs of tend()
SENT_OF_LATE_MS = 1000
UNDONE_S = 1.0  # between two runs while agents still hold caps of removed rules


class CapsManager:
    def __init__(
        self,
        config: Config,
        agents: AgentRegistry,
        uplinks_key: Callable[[str], str],
        often: Callable[[int], bool],
        probed: Probed,
    ) -> None:
        """The callbacks read other features.

        `uplinks_key` returns a key of the uplinks that carry a terminal's packets. `often` returns whether another
        feature needs frequent reports, `probed` the rate of an access point by packet trains.
        """
        self._agents, self._uplinks_key, self._often = agents, uplinks_key, often
        self._probed = probed
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
            for agent in self._here:
                self._log_inability(agent)

    @property
    def _here(self) -> tuple[Agent, ...]:
        return self._agents.of_roles(Role.TERMINAL, Role.GATEWAY)

    # Events of agents

    def on_event(self, event: AgentEvent, agent: Agent, now: float) -> None:
        if agent.role is Role.RELAY:
            return
        if isinstance(event, AgentOpened):
            self._log_inability(agent)
        elif isinstance(event, Reported):
            self._reported(agent, event, now)
        self._wake(now)

    def _reported(self, agent: Agent, event: Reported, now: float) -> None:
        if not self._access_points:
            return
        if agent.role is Role.TERMINAL and _sees(agent):
            self._record_own_report(agent, event, now)
        elif agent.role is Role.GATEWAY and event.capping is not None:
            self._record_passing(agent, event, now)

    def _record_own_report(self, agent: Agent, event: Reported, now: float) -> None:
        """Drop flows of unconfigured addresses.

        Flows of terminals that it does not speak for stay: policy/caps/sharers.py counts them as doubts.
        """
        own = self._spoken_for(agent, now)
        flows = of_connections(event.connections) if own else ()
        for name in own:
            state = self._state_of[name]
            theirs = [flow for flow in flows if self._concerns(name, own, flow.terminal_address)]
            if state.meter is not None:
                state.meter.count_by_agent(name, theirs, event.interval_ms / 1000, now)
            state.on_report(
                state.terminals[name], theirs, agent.name, agent.period_s, now, event.cut, self._uplinks_key(name)
            )

    def _concerns(self, name: str, own: Collection[str], address: str) -> bool:
        whose = self._whose.get(address, set())
        return name in whose or (bool(whose) and whose.isdisjoint(own))

    def _record_passing(self, agent: Agent, event: Reported, now: float) -> None:
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
        for state in (each for each in self._access_points.values() if each.site.name == agent.name):
            state.unseen = {
                name: sum(unseen[str(at.address)] for at in terminal.own) for name, terminal in state.terminals.items()
            }
            for terminal in state.terminals.values():
                theirs = [flow for at in terminal.own for flow in by_address.get(str(at.address), ())]
                if state.meter is not None:
                    state.meter.count_by_gateway(terminal.name, theirs, event.interval_ms / 1000, now)
                itself = own.get(terminal.name)
                if itself is None or not _sees(itself) or not itself.reports_recently(now):
                    state.on_report(
                        terminal, theirs, None, agent.period_s, now, uplinks_key=self._uplinks_key(terminal.name)
                    )

    def _log_inability(self, agent: Agent) -> None:
        needed = OF_TERMINALS if agent.role is Role.TERMINAL else OF_GATEWAYS
        if self._access_points and not any(map(agent.can, needed)):
            log.info("agent %s reports connections but cannot enforce caps: %s", agent.name, incapable(agent, needed))

    def view(self, now: float) -> tuple[AccessPointView, ...]:
        return tuple(access_point_views(self._config, self._access_points, self._executors, self._agents, now))

    # Orders

    def tend(self, now: float) -> Iterator[Direct]:
        if self.next_at is None or now < self.next_at:
            return
        self._tended_at = now
        for state in self._access_points.values():
            state.decide(now, self._probed)
        drafts = self._drafts(now)
        seen = self._speakers(now).values() if self._access_points else ()
        often = {agent.session for agent in seen} | drafts.keys()
        for agent in self._here:
            draft = drafts.get(agent.session)
            is_often = agent.session in often or self._often(agent.session)
            yield from agent.order(REPORT_INTERVAL, OFTEN if is_often else REPORT_INTERVAL.nothing, now)
            # An agent that does not report keeps its caps. One that was silent gets new ones at its second report.
            if agent.reports_recently(now) and not (agent.resumed and draft is not None):
                yield from agent.order(WINDOW_CAPS, draft.order() if draft else WINDOW_CAPS.nothing, now)
        self.next_at = now + TICK_S if self._access_points else None
        if not self._access_points and not all(map(_rests, self._here)):
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
                state.held_sockets(name, _held_sockets(itself), now)
                windows = state.windows(name)
                if own is not None and any(map(own.knows, OF_TERMINALS)):
                    draft = drafts.setdefault(own.session, CapsDraft())
                    draft.share(state)
                    if any(map(own.can, OF_TERMINALS)):
                        draft.hold(name, windows)  # also after a refusal: the order is repeated
                if isinstance(chosen, CapExecutor) and itself is None:
                    drafts[chosen.session].hold(name, windows)
        return drafts

    def _speakers(self, now: float) -> dict[str, Agent]:
        terminals = self._agents.of_roles(Role.TERMINAL)
        return {name: agent for agent in terminals for name in self._spoken_for(agent, now)}

    def _spoken_for(self, agent: Agent, now: float) -> list[str]:
        """Return the terminals with a rule that an agent may report.

        An enrolled agent could claim to be a phone without an agent. If the gateway sees the terminal's traffic, only
        the agent of the terminal's own name counts.
        """
        named = ((name, self._state_of.get(name)) for name in agent.owns)
        return [name for name, state in named if state and (name == agent.name or not self._is_watched(state, now))]

    def _is_watched(self, state: AccessPointState, now: float) -> bool:
        gateway = self._gateway(state)
        return gateway is not None and capping(gateway) is not None and gateway.reports_recently(now)

    def _gateway(self, state: AccessPointState) -> Agent | None:
        return self._agents.gateway(state.site.name)


def _sees(agent: Agent) -> bool:
    """Return whether a report without connections means that there are none."""
    return agent.cannot(REPORTS) is None


def _held_sockets(agent: Agent | None) -> int | None:
    found = capping(agent) if agent is not None else None
    return found.held_sockets if found is not None else None


def _rests(agent: Agent) -> bool:
    """Return whether the agent holds no caps, reports at the normal interval and has refused nothing."""
    slots = (agent.slot(REPORT_INTERVAL), agent.slot(WINDOW_CAPS))
    normal = all(slot.ordered in (None, slot.kind.nothing) and not slot.refused for slot in slots)
    return normal and capping(agent) is None
