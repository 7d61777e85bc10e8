# SPDX-License-Identifier: Apache-2.0
"""A fake agent that carries out orders of every kind in memory, and whose reports show what it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from controller.agents import order_kinds
from controller.agents.order_kinds import OrderKind
from controller.protocol import orders
from controller.protocol.orders import Direct
from controller.protocol.reports import (
    AgentOpened,
    Answering,
    Capability,
    Capping,
    Cost,
    Elimination,
    InterceptionReport,
    PathHealth,
    PathManager,
    RelayReached,
    RelayReport,
    Reported,
    Resulted,
    Role,
    TunnelEnd,
    Tunnelling,
)
from tests.fakes.eliminator import EMPTY

RELAY_REPORT = RelayReport("", False, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "")
KINDS: dict[str, OrderKind[Any]] = {
    name: each for name, each in vars(order_kinds).items() if isinstance(each, OrderKind)
}


def _eliminates(order: orders.Eliminate) -> dict[str, Any]:
    paths = tuple(replace(EMPTY, name=name) for name, _, _ in order.paths)
    return {"elimination": Elimination(1, paths, ()) if paths else None}


def _has_tunnels(order: orders.Tunnels) -> dict[str, Any]:
    ends = tuple(TunnelEnd(each.name, "", "", None, 0, 0, 0) for each in order.tunnels)
    return {"tunnelling": Tunnelling(ends, 0, ()) if ends else None}


def _intercepts(order: orders.Intercept) -> dict[str, Any]:
    relays = tuple(RelayReached(each.name, "", 0, 0, 0) for each in order.relays)
    return {"interception": InterceptionReport("", relays, (), ()) if order.terminals else None}


# The part of a report by which an order is shown
SHOWS: dict[type, Callable[[Any], dict[str, Any]]] = {
    orders.Eliminate: _eliminates,
    orders.Tunnels: _has_tunnels,
    orders.AnswerProbes: lambda order: {"answering": Answering("") if order.sessions else None},
    orders.HealthProbes: lambda order: {
        "health": tuple(PathHealth(each.name, "", 0, 0, 0, 0, 0, ()) for each in order.paths)
    },
    orders.Relay: lambda order: {"relay": RELAY_REPORT if order.port else None},
    orders.Intercept: _intercepts,
    orders.Caps: lambda order: {
        "capping": Capping("clamp", 1, ()) if order.caps or order.ports or order.sharers else None
    },
    orders.Choices: lambda order: {},
    orders.ReportEvery: lambda order: {},
}
OUTLIVE = {type(each.nothing) for each in KINDS.values() if each.outlives}


@dataclass
class FakeHolder:
    name: str
    role: Role
    addresses: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    refuses: str = ""  # why it refuses all orders
    session: int = 0
    has: dict[type, Any] = field(default_factory=dict)

    def opened(self, session: int) -> AgentOpened:
        self.session = session
        able = tuple(Capability(each, True, "") for each in self.capabilities)
        return AgentOpened(session, self.name, "", self.role, PathManager.KERNEL, "", able, self.addresses)

    def carry_out(self, direct: Direct) -> Resulted:
        """Carry out an order that is kept. It has no time for others."""
        kept = type(direct.order) in SHOWS
        if kept and not self.refuses:
            self.has[type(direct.order)] = direct.order
        done = kept and not self.refuses
        return Resulted(direct.session, direct.directive, done, "" if done else self.refuses or "it is busy", 0, 0)

    def report(self, interval_ms: int = 1000) -> Reported:
        shown: dict[str, Any] = {}
        for order in self.has.values():
            shown |= SHOWS[type(order)](order)
        return Reported(self.session, 1, interval_ms, (), Cost(0, 0), **shown)

    def die(self) -> None:
        """Keep what survives the agent."""
        self.has = {kind: order for kind, order in self.has.items() if kind in OUTLIVE}
