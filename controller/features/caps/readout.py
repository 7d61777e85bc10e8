# SPDX-License-Identifier: Apache-2.0
"""The view of the configured access points, with the state of each that has a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.agents.agent import Agent
from controller.agents.registry import AgentRegistry
from controller.features.caps.access_point import AccessPointState
from controller.features.caps.executor import CapExecutor, capping, holds
from controller.features.caps.view import AccessPointView, MeasuredView, SharerView, WindowView
from controller.model.config import AccessPoint, CapRule, Config, Site
from controller.model.text import counted
from controller.policy.bandwidth.rates import Method
from controller.protocol.reports import CAPS, CLAMPS, NARROWS

NAMES = {CAPS: "congestion-control", CLAMPS: "clamp", NARROWS: "window"}  # of capabilities
OFF = "the rule of its access point is off"
UNHEARD = "no agent reports it"
DELIVERED = "delivered"
EVERY_PORT = "all"  # an agent's name for all ports, if it cannot distinguish them


def access_point_views(
    config: Config,
    places: Mapping[tuple[str, str], AccessPointState],
    executors: Mapping[str, CapExecutor | str],
    agents: AgentRegistry,
    now: float,
) -> Iterator[AccessPointView]:
    """Yield the views. `executors`: by terminal, the agent that holds its caps or why none does."""
    for site in config.sites:
        for each in site.access_points:
            state = places.get((site.name, each.name))
            yield _view(site, state, executors, agents, now) if state else _off(site, each)


def _off(site: Site, one: AccessPoint) -> AccessPointView:
    unheard = tuple(_unheard(each.name, OFF) for each in site.terminals if each.access_point == one.name)
    return AccessPointView(one.name, site.name, one.rule, None, one.bandwidth_bps, None, 0, None, None, (), unheard)


def _view(
    site: Site,
    state: AccessPointState,
    executors: Mapping[str, CapExecutor | str],
    agents: AgentRegistry,
    now: float,
) -> AccessPointView:
    one, ruling = state.access_point, state.ruling
    gateway = agents.gateway(site.name)
    found = capping(gateway) if gateway is not None else None
    missing = found.missing if found is not None else ()
    return AccessPointView(
        name=one.name,
        gateway=site.name,
        rule=one.rule,
        tables=one.tables if one.rule is CapRule.PAPER else None,
        bandwidth_bps=ruling.access_point.bandwidth_bps,
        measured=_measured(state, now),
        active=ruling.active,
        block_bytes=ruling.block_bytes or None,
        released=state.release.reason,
        missing=tuple((port, reason) for port, reason in missing if port in (*state.ports, EVERY_PORT)),
        terminals=tuple(_sharer(state, name, executors.get(name, UNHEARD), agents) for name in state.terminals),
    )


def _measured(state: AccessPointState, now: float) -> MeasuredView | None:
    rate = state.meter.rate if state.meter is not None else None
    if rate is None or rate.bps is None:
        return None
    by = str(Method.TRAINS) if rate.probed else DELIVERED
    return MeasuredView(rate.least_bps, rate.most_bps, max(0.0, now - rate.at), by)


def _sharer(state: AccessPointState, name: str, executor: CapExecutor | str, agents: AgentRegistry) -> SharerView:
    cap = state.ruling.caps.get(name)
    if cap is None:
        return _unheard(name, executor if isinstance(executor, str) else UNHEARD)
    agent = agents.of(executor.session) if isinstance(executor, CapExecutor) else None
    by = executor if isinstance(executor, CapExecutor) and agent is not None and cap.windows else None
    reason = (
        cap.reason
        if isinstance(executor, CapExecutor) or not cap.windows
        else (f"{executor}; the cap would be {cap.reason}")
    )
    unseen = state.unseen.get(name, 0) if by is not None and by.capability == NARROWS else 0
    if unseen:
        reason += f"; {counted(unseen, 'connections')} opened before the gateway's agent started and have no cap"
    short = by is not None and name in state.short
    if short:
        reason += "; its agent caps fewer sockets than it has sending connections"
    return SharerView(
        terminal=name,
        reporting=True,
        active=cap.active,
        connections=cap.connections,
        rtt_ratio=cap.ratio,
        most_segments=cap.most_segments,
        least_segments=None
        if by is not None and by.capability != CAPS
        else cap.least_segments,  # clamps and windows have no lower limit
        windows=tuple(
            WindowView(own, other, one.most, one.least, one.pace_bps)
            for (own, other), one in sorted(cap.windows.items())
        ),
        agent=by.agent if by else None,
        method=_how(by, agent) if by else None,
        instead=by.instead if by else None,
        held=by is not None and agent is not None and holds(agent, cap.windows.keys()) and not unseen and not short,
        reason=reason,
        doubts=cap.doubts,
        doubted=cap.doubted,
    )


def _how(executor: CapExecutor, agent: Agent | None) -> str:
    found = capping(agent) if agent is not None else None
    return (found.method if found is not None else "") or NAMES[executor.capability]


def _unheard(name: str, reason: str) -> SharerView:
    return SharerView(name, False, False, 0, None, None, None, (), None, None, None, False, reason, (), 0)
