# SPDX-License-Identifier: Apache-2.0
"""The last reports of relays and of intercepting gateways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.agents.agent import Agent
from controller.agents.order_kinds import INTERCEPTION, RELAYING, OrderKind
from controller.protocol.reports import InterceptionReport, RelayReached, RelayReport


@dataclass(frozen=True, slots=True)
class Figures:
    """The last report of a relay about itself."""

    report: RelayReport
    at: float


def interception(gateway: Agent) -> InterceptionReport | None:
    return gateway.report.interception if gateway.report is not None else None


def relay(agent: Agent) -> RelayReport | None:
    return agent.report.relay if agent.report is not None else None


def relays(gateway: Agent) -> dict[str, RelayReached]:
    found = interception(gateway)
    return {one.name: one for one in found.relays} if found is not None else {}


def reached(gateway: Agent) -> set[str]:
    return {name for name, one in relays(gateway).items() if not one.reason}


def why_not_intercepting(gateway: Agent) -> str | None:
    """Return why the gateway does not intercept as ordered, or None."""
    return _why_not(gateway, INTERCEPTION, interception(gateway), "it does")


def why_not_relaying(agent: Agent) -> str | None:
    """Return why the relay is not up, or None."""
    return _why_not(agent, RELAYING, relay(agent), "it is up")


def _why_not(
    agent: Agent, kind: OrderKind[Any], report: InterceptionReport | RelayReport | None, does: str
) -> str | None:
    slot = agent.slot(kind)
    if report is not None and slot.refused is None:
        return report.reason or None
    return slot.unable or slot.refused or f"the agent {agent.name} has not confirmed yet that {does}"
