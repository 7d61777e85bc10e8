# SPDX-License-Identifier: Apache-2.0
"""What the agents of relays and of intercepting gateways last reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.agents.order_kinds import INTERCEPTION, RELAYING, OrderKind
from controller.agents.registry import ConnectedAgent
from controller.protocol.reports import InterceptionReport, RelayReached, RelayReport


@dataclass(frozen=True, slots=True)
class Figures:
    """The last report of a relay about itself."""

    report: RelayReport
    at: float


def interception(gateway: ConnectedAgent) -> InterceptionReport | None:
    return gateway.report.interception if gateway.report is not None else None


def relay(agent: ConnectedAgent) -> RelayReport | None:
    return agent.report.relay if agent.report is not None else None


def relays(gateway: ConnectedAgent) -> dict[str, RelayReached]:
    found = interception(gateway)
    return {one.name: one for one in found.relays} if found is not None else {}


def reached(gateway: ConnectedAgent) -> set[str]:
    return {name for name, one in relays(gateway).items() if not one.reason}


def why_not_intercepting(gateway: ConnectedAgent) -> str | None:
    """Return why the gateway does not intercept as ordered, or None."""
    return _why_not(gateway, INTERCEPTION, interception(gateway), "it does")


def why_not_relaying(agent: ConnectedAgent) -> str | None:
    """Return why the relay is not up, or None."""
    return _why_not(agent, RELAYING, relay(agent), "it is up")


def _why_not(
    agent: ConnectedAgent, kind: OrderKind[Any], report: InterceptionReport | RelayReport | None, does: str
) -> str | None:
    slot = agent.slot(kind)
    if report is not None and slot.refused is None:
        return report.reason or None
    return slot.unable or slot.refused or f"the agent {agent.name} has not confirmed yet that {does}"
