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

from controller.agents.agent import Agent
from controller.agents.order_kinds import INTERCEPTION, RELAY_CHOICES, RELAYING
from controller.features.relays import reports
from controller.features.relays.destinations import CHOOSE, RelayChooser, RelayContext, UplinkBps
from controller.features.relays.distances import DistanceProber
from controller.features.relays.orders import RelayOrders
from controller.features.relays.reports import Figures
from controller.model.config import Config
from controller.model.in_force import InForce
from controller.model.overrides import RelayOverride
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
        in_force: InForce,
        tickets: Tickets,
        uplink_bps: UplinkBps,
    ) -> None:
        self._config, self._tickets = config, tickets
        self._vouched: Vouched = {}
        self.gateways: dict[str, DistanceProber] = {}  # by name
        self.relay_agents: dict[str, DistanceProber] = {}
        self.figures: dict[str, Figures] = {}  # last reports of relays, including disconnected ones
        self._by_session: dict[int, DistanceProber] = {}
        self._reached: dict[str, set[str]] = {}  # by gateway: relays, in its last report
        self._inquiries: list[Inquiry] = []
        self.chooser = RelayChooser(uplink_bps)
        self.orders = RelayOrders(config, in_force, self._vouched, {})
        self.chooser.keep(self.orders.takers)

    def reconfigure(self, config: Config, in_force: InForce) -> None:
        self._config = config
        self._redraft(in_force)
        for site in self.orders.takers:
            self.chooser.touch(site)

    def vouch(self, vouched: Vouched, in_force: InForce, now: float) -> Iterator[Direct]:
        self._vouched = vouched
        yield from self.tend(in_force, now)

    # Events of agents

    def on_event(self, event: AgentEvent, agent: Agent, in_force: InForce, now: float) -> Iterator[Direct]:
        if isinstance(event, AgentOpened) and agent.role is not Role.TERMINAL:
            prober = DistanceProber(agent, event.session)
            self._by_session[event.session] = self._of_role(agent.role)[agent.name] = prober
            self._reached.pop(agent.name, None)
        if event.session not in self._by_session:
            return
        prober = self._by_session[event.session]
        match event:
            case AgentClosed():
                del self._by_session[event.session]
                self._closed(prober)
                return
            case Resulted():
                self._on_distances(prober.name, prober.resulted(event), now)
            case DistancesMeasured():
                self._on_distances(prober.name, prober.on_distances(event), now)
            case Reported():
                if not self._reported(prober.agent, event, now):
                    yield from self._measure(prober, now)
                    return
        yield from self._tell(prober, in_force, now)

    def _of_role(self, role: Role) -> dict[str, DistanceProber]:
        return self.gateways if role is Role.GATEWAY else self.relay_agents

    def _closed(self, prober: DistanceProber) -> None:
        del self._of_role(prober.agent.role)[prober.name]
        self._answer(prober.name, prober.given_up())

    def _reported(self, agent: Agent, event: Reported, now: float) -> bool:
        """Return whether orders must follow at once. Otherwise the next tick suffices."""
        if agent.role is Role.RELAY:
            if event.relay is not None and agent.name in self.orders.standing:
                self.figures[agent.name] = Figures(event.relay, now)
            return False
        before, after = self._reached.get(agent.name, set()), reports.reached(agent)
        self._reached[agent.name] = after
        context = self.context(agent.name)
        if context is not None and event.interception is not None:
            if after != before:
                self.chooser.touch(agent.name)
            self._on_pending(context, event.interception, now)
        return after != before

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

    def tend(self, in_force: InForce, now: float) -> Iterator[Direct]:
        self._redraft(in_force)
        for prober in self._by_session.values():
            self._on_distances(prober.name, prober.late(now), now)
        for site in self.orders.takers:
            context = self.context(site)
            if context is not None and reports.interception(context.gateway.agent) is not None:
                self.chooser.choose(context, now)
        for prober in tuple(self._by_session.values()):
            yield from self._tell(prober, in_force, now)

    def _tell(self, prober: DistanceProber, in_force: InForce, now: float) -> Iterator[Direct]:
        self._redraft(in_force)
        agent = prober.agent
        if agent.role is Role.RELAY:
            yield from agent.order(RELAYING, self.orders.relay(agent.name), now)
        else:
            yield from agent.order(INTERCEPTION, self.orders.take(agent.name), now)
            context = self.context(agent.name)
            if context is not None and reports.interception(agent) is not None:  # it knows which relays it reaches
                yield from agent.order(RELAY_CHOICES, self.chooser.choices(context), now)
        yield from self._measure(prober, now)

    def _measure(self, prober: DistanceProber, now: float) -> Iterator[Direct]:
        order = prober.begin(self._tickets, now)
        if order is not None:
            yield order

    def _redraft(self, in_force: InForce) -> None:
        together = {site.name: self.chooser.together(site) for site in self._config.sites}
        if self.orders.are_of(self._config, in_force, self._vouched, together):
            return
        before, self.orders = self.orders, RelayOrders(self._config, in_force, self._vouched, together)
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
        reached = reports.reached(gateway.agent) & standing.keys()
        usable = (name for name in reached if not self._is_draining(name))
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
        report = reports.relay(relay_agent.agent) if relay_agent is not None else None
        number = report.connections if report is not None else 0
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
        for prober in (context.gateway for context in contexts):
            prober.want(DistanceTarget(address, relay.port))
            if prober.is_on_its_way(address):
                inquiry.wait_for([(prober.name, address)])
        return self._await_answers(inquiry)

    def _await_answers(self, inquiry: Inquiry) -> Inquiry:
        if not inquiry.answered:
            self._inquiries.append(inquiry)
        return inquiry
