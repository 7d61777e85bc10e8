# SPDX-License-Identifier: Apache-2.0
"""The relays, the terminals whose connections are intercepted, and the relay of each connection.

    overrides, gateway.yaml, ledger ─► drafts ─► Relay to relays' agents, Take to gateways'
    gateways' reports ─► destinations ─► MeasureDistances ─► DistancesMeasured ─► policy ─► Choices to gateways' agents

Known distances end with the controller: they are measured again in seconds. Until then connections take the relay with
the fastest connection setup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from controller.features.relays.agents import Figures, RelayAgent, RelayClientAgent
from controller.features.relays.destinations import CHOOSE, NO_CHOICES, RelayChooser, RelayContext, UplinkBps
from controller.features.relays.orders import RelayOrders
from controller.model.config import Config
from controller.model.known import RelayOverride, Wanted
from controller.model.text import counted
from controller.protocol.enrolment import Vouched
from controller.protocol.orders import Direct, DistanceTarget, Tickets
from controller.protocol.reports import (
    AgentClosed,
    AgentEvent,
    AgentOpened,
    Distance,
    DistancesMeasured,
    InterceptionReport,
    PendingDestination,
    Reported,
    Resulted,
    Role,
)
from controller.protocol.requests import Impossible

# Requests of people that wait for measurements of agents

Told = TypeVar("Told", covariant=True)


class PendingAnswer(Protocol):
    @property
    def answered(self) -> bool: ...


class MeasuredQuery(Protocol[Told]):
    @property
    def inquiries(self) -> Sequence[PendingAnswer]: ...

    def result(self, now: float) -> Told: ...


class Inquiry:
    def __init__(self) -> None:
        self._left: set[tuple[str, str]] = set()  # by agent and address

    def wait_for(self, ways: Iterable[tuple[str, str]]) -> None:
        self._left.update(ways)

    def on_answer(self, agent: str, addresses: Iterable[str]) -> None:
        self._left.difference_update((agent, address) for address in addresses)

    @property
    def answered(self) -> bool:
        return not self._left


class RelayManager:
    def __init__(
        self,
        config: Config,
        wanted: Wanted,
        tickets: Tickets,
        uplink_bps: UplinkBps,
    ) -> None:
        self._config, self._tickets = config, tickets
        self._vouched: Vouched = {}
        self.gateways: dict[str, RelayClientAgent] = {}  # by name
        self.relay_agents: dict[str, RelayAgent] = {}
        self.figures: dict[str, Figures] = {}  # last reports of relays, including disconnected ones
        self._by_session: dict[int, RelayClientAgent | RelayAgent] = {}
        self._inquiries: list[Inquiry] = []
        self.chooser = RelayChooser(uplink_bps)
        self.orders = RelayOrders(config, wanted, self._vouched, {})
        self.chooser.keep(self.orders.takers)

    def reconfigure(self, config: Config, wanted: Wanted) -> None:
        self._config = config
        self._redraft(wanted)
        for site in self.orders.takers:
            self.chooser.touch(site)

    def vouch(self, vouched: Vouched, wanted: Wanted, now: float) -> Iterator[Direct]:
        self._vouched = vouched
        yield from self.tend(wanted, now)

    # Events of agents

    def on_event(self, event: AgentEvent, wanted: Wanted, now: float) -> Iterator[Direct]:
        agent = self._by_session.get(event.session)
        match event:
            case AgentOpened(role=Role.GATEWAY):
                agent = self.gateways[event.name] = self._by_session[event.session] = RelayClientAgent(event)
            case AgentOpened(role=Role.RELAY):
                agent = self.relay_agents[event.name] = self._by_session[event.session] = RelayAgent(event)
            case AgentClosed() if agent is not None:
                self._closed(event.session, agent)
                return
            case Resulted() if agent is not None:
                agent.resulted(event)
                self._on_distances(agent.name, agent.prober.resulted(event), now)
            case DistancesMeasured() if agent is not None:
                self._on_distances(agent.name, agent.prober.on_distances(event), now)
            case Reported() if agent is not None:
                if not self._reported(agent, event, now):
                    yield from self._measure(agent, now)
                    return
        if agent is not None:
            yield from self._tell(agent, wanted, now)

    def _closed(self, session: int, agent: RelayClientAgent | RelayAgent) -> None:
        del self._by_session[session]
        here = self.gateways if isinstance(agent, RelayClientAgent) else self.relay_agents
        if here.get(agent.name) is agent:
            del here[agent.name]
        self._answer(agent.name, agent.prober.given_up())

    def _reported(self, agent: RelayClientAgent | RelayAgent, event: Reported, now: float) -> bool:
        """Return whether orders must follow at once. Otherwise the next tick suffices."""
        if isinstance(agent, RelayAgent):
            agent.last_report = event.relay
            if event.relay is not None and agent.name in self.orders.standing:
                self.figures[agent.name] = Figures(event.relay, now)
            return False
        others = agent.reported(event)
        context = self.context(agent.name)
        if context is not None and event.interception is not None:
            if others:
                self.chooser.touch(agent.name)
            self._on_pending(context, event.interception, now)
        return others

    def _on_pending(self, context: RelayContext, report: InterceptionReport, now: float) -> None:
        if context.method not in CHOOSE:
            return
        for one in report.pending:
            self.chooser.seek(context, one, now)

    def _on_distances(self, agent: str, ways: Iterable[Distance], now: float) -> None:
        ways = tuple(ways)
        self.chooser.on_distances(agent, ways, now)
        self._answer(agent, tuple(way.address for way in ways))

    def _answer(self, agent: str, addresses: tuple[str, ...]) -> None:
        for inquiry in self._inquiries:
            inquiry.on_answer(agent, addresses)
        self._inquiries = [each for each in self._inquiries if not each.answered]

    # Orders

    def tend(self, wanted: Wanted, now: float) -> Iterator[Direct]:
        self._redraft(wanted)
        for agent in self._by_session.values():
            self._on_distances(agent.name, agent.prober.late(now), now)
        for site in self.orders.takers:
            context = self.context(site)
            if context is not None and context.gateway.last_report is not None:
                self.chooser.choose(context, now)
        for each in tuple(self._by_session.values()):
            yield from self._tell(each, wanted, now)

    def _tell(self, agent: RelayClientAgent | RelayAgent, wanted: Wanted, now: float) -> Iterator[Direct]:
        self._redraft(wanted)
        if isinstance(agent, RelayAgent):
            yield from agent.tell(self.orders.relay(agent.name), self._tickets, now)
        else:
            context = self.context(agent.name)
            choices = self.chooser.choices(context) if context is not None else NO_CHOICES
            yield from agent.tell(self.orders.take(agent.name), choices, self._tickets, now)
        yield from self._measure(agent, now)

    def _measure(self, agent: RelayClientAgent | RelayAgent, now: float) -> Iterator[Direct]:
        order = agent.prober.begin(self._tickets, now)
        if order is not None:
            yield order

    def _redraft(self, wanted: Wanted) -> None:
        together = {site.name: self.chooser.together(site) for site in self._config.sites}
        if self.orders.are_of(self._config, wanted, self._vouched, together):
            return
        before, self.orders = self.orders, RelayOrders(self._config, wanted, self._vouched, together)
        for name in (name for name, host in before.hosts.items() if self.orders.hosts.get(name) != host):
            self.figures.pop(name, None)  # the name may now belong to another host elsewhere
            self.chooser.ways.forget(name)
        self.chooser.keep(self.orders.takers)
        for site in self.orders.takers if self.orders.standing != before.standing else ():
            self.chooser.touch(site)

    # Choices

    def context(self, site: str) -> RelayContext | None:
        """Return the context of a site; None: it intercepts nothing, or its agent is not connected."""
        gateway = self.gateways.get(site)
        if gateway is None or site not in self.orders.takers:
            return None
        standing = self.orders.standing
        connected = {name: relay_agent for name, relay_agent in self.relay_agents.items() if name in standing}
        usable = (name for name in gateway.reached & standing.keys() if not self._is_draining(name))
        return RelayContext(
            self.orders.takers[site],
            gateway,
            {name: standing[name] for name in sorted(usable, key=lambda name: (name not in connected, name))},
            connected,
            self.figures,
        )

    def _is_draining(self, name: str) -> bool:
        figures = self.figures.get(name)
        return self.orders.standing[name].draining or (figures is not None and figures.report.draining)

    def carries(self, name: str) -> str:
        """Return the number of connections as the end of a sentence, or "" if unknown or zero."""
        relay_agent = self.relay_agents.get(name)
        number = (
            relay_agent.last_report.connections
            if relay_agent is not None and relay_agent.last_report is not None
            else 0
        )
        return f"; it carries {counted(number, 'connections')}" if number else ""

    # Requests of people

    def contexts(self, site: str | None) -> list[RelayContext]:
        """Return the contexts of one site or of all. Raise Impossible if there is none."""
        takers = ", ".join(self.orders.takers) or "none"
        if site is not None and site not in self.orders.takers:
            raise Impossible(f"the site {site!r} has no relayed terminal; sites with relayed terminals: {takers}")
        if not self.orders.takers:
            raise Impossible("no site of gateway.yaml has both `relaying` and a terminal with `relayed: true`")
        contexts = [context for each in self.orders.takers if site in (None, each) and (context := self.context(each))]
        if not contexts:
            raise Impossible(f"no gateway agent enrolled as {site or takers} is connected")
        return contexts

    def measure_destination(
        self, contexts: Iterable[RelayContext], to: PendingDestination, anew: bool, now: float
    ) -> Inquiry:
        """Known distances are measured again on request."""
        inquiry = Inquiry()
        for context in contexts:
            inquiry.wait_for(self.chooser.ask(context, to, now, anew))
        return self._await_answers(inquiry)

    def measure_relay(self, contexts: Iterable[RelayContext], relay: RelayOverride) -> Inquiry:
        """A known distance is measured again."""
        inquiry, address = Inquiry(), str(relay.address)
        for prober in (context.gateway.prober for context in contexts):
            prober.want(DistanceTarget(address, relay.port))
            if prober.is_on_its_way(address):
                inquiry.wait_for([(prober.name, address)])
        return self._await_answers(inquiry)

    def _await_answers(self, inquiry: Inquiry) -> Inquiry:
        if not inquiry.answered:
            self._inquiries.append(inquiry)
        return inquiry
