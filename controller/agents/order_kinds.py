# SPDX-License-Identifier: Apache-2.0
"""The orders that an agent keeps, each with its capability and the report that confirms it.

An agent keeps one order of each kind, which states everything that it must have of that kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.protocol.orders import (
    AnswerProbes,
    Choices,
    Eliminate,
    HealthProbes,
    Intercept,
    Relay,
    Tunnels,
)
from controller.protocol.reports import ELIMINATES, INTERCEPTS, PROBE, RELAYS, TUNNELS, Reported

Order = TypeVar("Order")


@dataclass(frozen=True, slots=True, eq=False)
class OrderKind(Generic[Order]):
    nothing: Order  # what an agent has without an order
    capability: str
    shows: Callable[[Order, Reported], bool]  # whether a report confirms the order
    outlives: bool = False  # what an agent had when it was killed may still be there, unreported


def _eliminates(order: Eliminate, report: Reported) -> bool:
    found = report.elimination
    if found is None:
        return not order.paths
    return not found.missing and {path.name for path in found.paths} == {name for name, _, _ in order.paths}


def _has_tunnels(order: Tunnels, report: Reported) -> bool:
    ends = report.tunnelling.ends if report.tunnelling is not None else ()
    return {end.name for end in ends} == {each.name for each in order.tunnels}


def _answers(order: AnswerProbes, report: Reported) -> bool:
    return (report.answering is not None) == bool(order.sessions)


def _probes(order: HealthProbes, report: Reported) -> bool:
    return {path.name for path in report.health} == {path.name for path in order.paths}


def _relays(order: Relay, report: Reported) -> bool:
    return (report.relay is not None) == bool(order.port)


def _intercepts(order: Intercept, report: Reported) -> bool:
    return (report.interception is not None) == bool(order.terminals)


ELIMINATION = OrderKind(Eliminate(), ELIMINATES, _eliminates)
TUNNEL_ENDS = OrderKind(Tunnels(), TUNNELS, _has_tunnels, outlives=True)
PROBE_ANSWERS = OrderKind(AnswerProbes(), PROBE, _answers)
HEALTH_PROBES = OrderKind(HealthProbes(), PROBE, _probes)
RELAYING = OrderKind(Relay(), RELAYS, _relays)
INTERCEPTION = OrderKind(Intercept(), INTERCEPTS, _intercepts)
# Reports do not show choices.
RELAY_CHOICES = OrderKind(Choices(), INTERCEPTS, lambda order, report: True, outlives=True)
