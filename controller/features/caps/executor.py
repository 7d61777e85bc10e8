# SPDX-License-Identifier: Apache-2.0
"""The agent that enforces a terminal's caps: the terminal's own, or its gateway's.

The terminal's agent can act on sockets, its gateway's agent only on windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from controller.agents.agent import Agent
from controller.agents.order_kinds import LEASE_MS, WINDOW_CAPS
from controller.model.config import Site
from controller.policy.caps.flows import Pair
from controller.protocol.reports import CAPS, CLAMPS, NARROWS, Capping

OF_TERMINALS, OF_GATEWAYS = (CAPS, CLAMPS), (NARROWS,)  # the capabilities of their agents, the best first


@dataclass(frozen=True, slots=True)
class CapExecutor:
    session: int
    agent: str
    capability: str
    instead: str | None = None  # why the terminal's own agent does not hold the caps


def cap_executor(site: Site, own: Agent | None, gateway: Agent | None, now: float) -> CapExecutor | str:
    """Return the agent for the terminal's caps, or why none can hold them. `own` speaks for the terminal."""
    instead = None
    for agent, capabilities in ((own, OF_TERMINALS), (gateway, OF_GATEWAYS)):
        if agent is None:
            continue
        able = next(filter(agent.can, capabilities), None)
        confirms = not agent.slot(WINDOW_CAPS).refused and not _owes(agent, now)
        if able is not None and confirms and agent.reports_recently(now):
            return CapExecutor(agent.session, agent.name, able, instead)
        instead = _cannot(f"its agent {agent.name}", agent, now, *capabilities)
    whose = "no agent speaks for it" if own is None else _cannot(f"its agent {own.name}", own, now, *OF_TERMINALS)
    if gateway is None:
        return f"{whose}, and no gateway agent enrolled as {site.name} is connected"
    there = _cannot(f"the gateway's agent {gateway.name}", gateway, now, *OF_GATEWAYS)
    return f"{whose}, and {there}"


def _cannot(name: str, agent: Agent, now: float, *capabilities: str) -> str:
    if not any(map(agent.can, capabilities)):
        return f"{name} cannot: {incapable(agent, capabilities)}"
    refused = agent.slot(WINDOW_CAPS).refused
    if refused:
        return f"{name} could not: {refused}"
    if agent.reports_recently(now):
        return f"{name} has not confirmed the order for {LEASE_MS // 1000} s"
    return f"{name} has not reported for three periods"


def _owes(agent: Agent, now: float) -> bool:
    """Return whether its answer about caps is overdue."""
    return agent.slot(WINDOW_CAPS).waits_s(now) > LEASE_MS / 1000


def incapable(agent: Agent, capabilities: Iterable[str]) -> str:
    """Return why the agent has none of these capabilities."""
    reasons = [reason for each in capabilities if (reason := agent.cannot(each))]
    return "; ".join(reasons) or f"it does not report this capability ({' or '.join(capabilities)})"


def holds(agent: Agent, pairs: Set[Pair]) -> bool:
    """Return whether the agent has confirmed caps for all these pairs."""
    slot = agent.slot(WINDOW_CAPS)
    caps = slot.acknowledged.caps if slot.acknowledged is not None and not slot.refused else ()
    return pairs <= {(cap.terminal_address, cap.other_address) for cap in caps}


def capping(agent: Agent) -> Capping | None:
    """Return the caps in its last report; None: it had none."""
    return agent.report.capping if agent.report is not None else None
