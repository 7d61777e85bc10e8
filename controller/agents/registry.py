# SPDX-License-Identifier: Apache-2.0
"""The connected agents: what each said when it connected, its last report, and its orders. No feature owns them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from controller.agents.order_kinds import Order, OrderKind
from controller.agents.order_slot import OrderSlot
from controller.protocol.orders import Direct, Directive, Tickets
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, Reported, Resulted, Role


class ConnectedAgent:
    """One session of an agent."""

    def __init__(self, event: AgentOpened, tickets: Tickets) -> None:
        self.session, self.name, self.role = event.session, event.name, event.role
        self.report: Reported | None = None  # the last one
        self.reported_at: float | None = None
        self._unable = {one.name: None if one.available else one.reason for one in event.capabilities}
        self._slots: dict[OrderKind[Any], OrderSlot[Any]] = {}
        self._tickets = tickets

    def slot(self, kind: OrderKind[Order]) -> OrderSlot[Order]:
        found = self._slots.get(kind)
        if found is None:
            found = self._slots[kind] = OrderSlot(kind, self.cannot(kind.capability))
        return cast("OrderSlot[Order]", found)

    def cannot(self, capability: str) -> str | None:
        """Return why the agent lacks a capability. None: it has it, or does not report it."""
        return self._unable.get(capability)

    def knows(self, capability: str) -> bool:
        """Return whether the agent reports this capability, available or not."""
        return capability in self._unable

    def reported_within(self, seconds: float, now: float) -> bool:
        return self.reported_at is not None and now - self.reported_at <= seconds

    def order(self, kind: OrderKind[Order], order: Order, now: float) -> Iterator[Direct]:
        """Yield the order if it is due."""
        slot = self.slot(kind)
        if slot.is_due(order, self.report, now):
            directive = self._tickets.draw()
            slot.sent(order, directive, now)
            yield Direct(self.session, directive, cast("Directive", order))

    def on_event(self, event: AgentEvent, now: float) -> None:
        match event:
            case Reported():
                self.report, self.reported_at = event, now
            case Resulted():
                for slot in self._slots.values():
                    if slot.resulted(event):
                        return


class AgentRegistry:
    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._sessions: dict[int, ConnectedAgent] = {}
        self._latest: dict[tuple[Role, str], ConnectedAgent] = {}  # by role and name: the latest session

    def on_event(self, event: AgentEvent, now: float) -> ConnectedAgent | None:
        """Record an event and return its agent, also if its session ends. None: the session has ended before."""
        match event:
            case AgentOpened():
                agent = self._sessions[event.session] = ConnectedAgent(event, self._tickets)
                self._latest[agent.role, agent.name] = agent
                return agent
            case AgentClosed():
                gone = self._sessions.pop(event.session, None)
                if gone is not None and self.at(gone.role, gone.name) is gone:
                    del self._latest[gone.role, gone.name]
                return gone
        found = self._sessions.get(event.session)
        if found is not None:
            found.on_event(event, now)
        return found

    def of(self, session: int) -> ConnectedAgent | None:
        return self._sessions.get(session)

    def at(self, role: Role, name: str) -> ConnectedAgent | None:
        return self._latest.get((role, name))

    def gateway(self, name: str) -> ConnectedAgent | None:
        """Return the connected agent of a site, or None."""
        return self.at(Role.GATEWAY, name)

    def of_roles(self, *roles: Role) -> tuple[ConnectedAgent, ...]:
        return tuple(agent for agent in self._latest.values() if agent.role in roles)
