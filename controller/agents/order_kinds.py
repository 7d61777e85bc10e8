# SPDX-License-Identifier: Apache-2.0
"""The orders that an agent keeps, each with its capability and the report that confirms it.

An agent keeps one order of each kind, which states everything that it must have of that kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.protocol import reports
from controller.protocol.orders import (
    AnswerProbes,
    Caps,
    Choices,
    Eliminate,
    HealthProbes,
    Intercept,
    Relay,
    ReportEvery,
    Tunnels,
)
from controller.protocol.reports import Reported

Order = TypeVar("Order")


@dataclass(frozen=True, slots=True, eq=False)
class OrderKind(Generic[Order]):
    aim: str  # what the agent is ordered to do, as the end of a sentence
    nothing: Order  # what an agent has without an order
    capability: str | None  # None: the order decides
    shows: Callable[[Order, Reported], bool]  # whether a report confirms the order
    outlives: bool = False  # what an agent had when it was killed may still be there, unreported
    lease_s: float | None = None  # an agent drops the order after this time; None: it keeps it


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


def _caps(order: Caps, report: Reported) -> bool:
    return order != WINDOW_CAPS.nothing or report.capping is None


def _unseen(order: object, report: Reported) -> bool:
    """Reports do not show this kind of order."""
    return True


LEASE_MS = 3000

ELIMINATION = OrderKind("eliminate copies", Eliminate(), reports.ELIMINATES, _eliminates)
TUNNEL_ENDS = OrderKind("have its tunnels", Tunnels(), reports.TUNNELS, _has_tunnels, outlives=True)
WINDOW_CAPS: OrderKind[Caps] = OrderKind("enforce caps", Caps(LEASE_MS), None, _caps, lease_s=LEASE_MS / 1000)
REPORT_INTERVAL = OrderKind("report at this interval", ReportEvery(1000), None, _unseen)
PROBE_ANSWERS = OrderKind("answer probes", AnswerProbes(), reports.PROBE, _answers)
HEALTH_PROBES = OrderKind("send health probes", HealthProbes(), reports.PROBE, _probes)
RELAYING = OrderKind("relay", Relay(), reports.RELAYS, _relays)
INTERCEPTION = OrderKind("intercept connections", Intercept(), reports.INTERCEPTS, _intercepts)
RELAY_CHOICES = OrderKind("choose relays", Choices(), reports.INTERCEPTS, _unseen, outlives=True)
