# SPDX-License-Identifier: Apache-2.0
"""The views of agents, and the answer to `why` for one terminal."""

from __future__ import annotations

from collections.abc import Iterator

from controller.agents.agent import Agent
from controller.core.core import Core
from controller.features.copies.packet_counts import Traffic
from controller.features.steering.logbook import LogEntry
from controller.features.steering.manager import SteeringManager
from controller.features.steering.terminal import Steered
from controller.model.config import Mode, Site, Terminal
from controller.model.in_force import InForce
from controller.model.traffic import REST, TrafficClass
from controller.policy.paths.failover import LEASE_S
from controller.policy.paths.health import UplinkPath
from controller.protocol.reports import Role
from controller.protocol.requests import unknown_terminal
from controller.readout.snapshot import (
    ActiveBy,
    AgentState,
    AgentView,
    ArmedFailoverView,
    CopyingView,
    CourseView,
    DecisionView,
    EndView,
    HealthView,
    MissingView,
    OutcomeView,
    PassedView,
    SubflowsView,
    TrafficView,
)

NO_REPORT = UplinkPath().reason


def agent_view(core: Core, agent: Agent, wall_offset_s: float) -> AgentView:
    cost = agent.report.cost if agent.report is not None else None
    missing = [MissingView(each.name, each.reason) for each in agent.missing]
    if agent.owns_nobody is not None:
        missing.append(MissingView("speak for a terminal", agent.owns_nobody))
    if agent.unconfirmed:
        missing.append(MissingView("be trusted", unconfirmed(agent)))
    return AgentView(
        name=agent.name,
        role=agent.role,
        state=_state(agent),
        since=agent.since + wall_offset_s,
        peer=agent.peer,
        version=agent.version,
        path_manager=agent.path_manager,
        reported_at=None if agent.reported_at is None else agent.reported_at + wall_offset_s,
        reports=agent.reports,
        terminals=tuple(sorted(core.steering.movers[agent.name].concerns)),
        missing=tuple(missing),
        cpu_us=cost.cpu_us if cost else None,
        rss_bytes=cost.rss_bytes if cost else None,
    )


def unconfirmed(agent: Agent) -> str:
    terminals = ", ".join(sorted(agent.unconfirmed))
    return (
        f"it reports connections of {terminals}, but neither their agents nor their gateway's agent "
        f"report the same connections to {agent.name}'s address ({agent.peer}): these reports are ignored; if it is "
        "your server, add it to `servers` in gateway.yaml"
    )


def _state(agent: Agent) -> AgentState:
    if not agent.connected:
        return AgentState.GONE
    return AgentState.SILENT if agent.silent else AgentState.HERE


def active_by(in_force: InForce, site: Site, terminal: Terminal) -> ActiveBy:
    if in_force.wished(site, terminal):
        return ActiveBy.PEOPLE
    return ActiveBy.POLICIES if in_force.standing(site, terminal) else ActiveBy.DEFAULT


def course(core: Core, name: str, now: float, wall_offset_s: float) -> CourseView:
    steered = core.steering.steered.get(name)
    if steered is None:
        raise unknown_terminal(name, core.steering.steered)
    choice = steered.choose(now)
    return CourseView(
        terminal=name,
        copying=_copying(core, steered, now, wall_offset_s),
        active_uplink=core.in_force.active_uplink(steered.site, steered.terminal),
        active_by=active_by(core.in_force, steered.site, steered.terminal),
        movers=choice.movers,
        unmoved=choice.unmoved,
        own_end=_own_end(core, steered),
        other_end=_other_end(core, steered),
        uplinks=tuple(health_views(core, steered, now, wall_offset_s)),
        armed_failovers=tuple(_armed_failovers(core.steering, name, now, wall_offset_s)),
        subflows=tuple(_subflows(steered)),
        decisions=tuple(decision_view(entry, wall_offset_s) for entry in core.steering.logbook.entries(name)),
    )


def _copying(core: Core, steered: Steered, now: float, wall_offset_s: float) -> CopyingView:
    in_force, site, terminal = core.in_force, core.switches[steered.site.dpid].site, steered.terminal
    mode, acting = in_force.overrides.mode(terminal), in_force.redundancy(site, terminal).mode
    reason, since = _reason(core, steered, mode, now)
    return CopyingView(
        mode=mode,
        acting=acting,
        reason=reason,
        since=None if since is None else since + wall_offset_s,
        copied=tuple(_named(site, each) for each in site.classes if each is not REST),
        whole=_why_not_whole(core, site),
        traffic=traffic_view(core.copying.traffic, site, terminal, now),
    )


def _reason(core: Core, steered: Steered, mode: Mode, now: float) -> tuple[str, float | None]:
    """Return why packets are copied or not, and the decision's time by the core's clock."""
    watch, barred = core.copying.watch(steered.name), core.copying.barred(steered, core.in_force)
    if mode is Mode.BICAST and barred is not None:
        return barred, None
    if mode is not Mode.AUTO:
        alone = mode is Mode.SINGLE and steered.site.other_end is None
        no_peer = (
            (f"; no peer site mirrors {steered.site.name}, so copies would reach servers as duplicates")
            if alone
            else ""
        )
        return f"mode {mode.value} requires this{no_peer}", None
    if watch is None:
        return "no report has arrived yet to decide from", None
    slow = None if watch.copies else core.copying.slow_watch(steered, core.in_force, now)
    return f"{watch.reason}; {slow}" if slow is not None else watch.reason, watch.since


def _why_not_whole(core: Core, site: Site) -> str | None:
    if not site.bicast.protocols:
        return None
    other = core.config.other_end(site)
    if other is None:
        return f"no peer site mirrors {site.name}, so packets other than TCP would arrive twice"
    if core.peer_sites.eliminates(other.name):
        return None  # the file limits it
    return f"at {other.name} no agent eliminates duplicates: {core.peer_sites.why_not(other.name)}"


def traffic_view(traffic: Traffic, site: Site, terminal: Terminal, now: float) -> TrafficView:
    seconds, passed = traffic.passed(terminal.name, now)
    names = {each.name: _named(site, each) for each in site.classes}
    there = (PassedView(names.get(each.traffic, each.traffic), each.sent, each.copied, each.alone) for each in passed)
    return TrafficView(seconds, tuple(there))


def _named(site: Site, traffic: TrafficClass) -> str:
    if traffic in site.named:
        return traffic.name
    if traffic.protocols:
        return ", ".join(protocol.label for protocol in traffic.protocols)
    return "everything" if traffic is not REST and not site.named else "everything else"


def health_views(core: Core, steered: Steered, now: float, wall_offset_s: float) -> Iterator[HealthView]:
    tellers = ", ".join(steered.movers)
    kept_because = steered.kept_because(now) if steered.is_policies(core.in_force) else None
    doubts = core.switches[steered.site.dpid].doubts
    for uplink, path in steered.paths.items():
        reason = path.reason
        if tellers and reason == NO_REPORT:
            reason = f"the reports of {tellers} do not show its state"
        if kept_because is not None and uplink == steered.course.active:
            reason = f"{reason}; {kept_because}"
        if uplink in doubts:
            reason = f"{reason}; {doubts[uplink]}"
        yield HealthView(uplink, path.health, reason, path.since + wall_offset_s, steered.where.get(uplink, ()))


def _subflows(steered: Steered) -> Iterator[SubflowsView]:
    for mover in steered.movers.values():
        standing = mover.standings.get(steered.name)
        if standing is None:
            continue
        found = [each for subflows in standing.connections.values() for each in subflows]
        for uplink in dict.fromkeys(each.uplink for each in found):
            backup = [each.by_us or each.by_peer for each in found if each.uplink == uplink]
            yield SubflowsView(
                agent=mover.name,
                connections=len(standing.connections),
                uplink=uplink,
                active=backup.count(False),
                backup=backup.count(True),
                srtt_us=standing.srtt_us.get(uplink),
            )


def _own_end(core: Core, steered: Steered) -> EndView:
    """Return the agents at the terminal's end. For relayed traffic, this end is the gateway's host."""
    name, relayed = steered.name, steered.terminal.relayed
    role = Role.GATEWAY if relayed else Role.TERMINAL
    reporting = tuple(mover.name for mover in steered.movers.values() if mover.role is role)
    if reporting:
        return EndView(reporting, None)
    if relayed:
        return EndView((), f"no gateway agent enrolled as {steered.site.name} reports relayed connections")
    agents = [each for each in core.agents.known.values() if each.role is Role.TERMINAL]
    own = [each for each in agents if each.name == name or name in each.owns]
    return EndView(
        (), "; ".join(_why_no_report(each, name) for each in own) or "no agent of this terminal has connected"
    )


def _why_no_report(agent: Agent, terminal: str) -> str:
    """Return why the agent reports nothing about the terminal."""
    if terminal not in agent.owns and agent.owns_nobody is not None:
        return f"agent {agent.name}: {agent.owns_nobody}"
    return f"agent {agent.name} {_away(agent) or 'has not reported yet'}"


def _other_end(core: Core, steered: Steered) -> EndView:
    reporting = tuple(mover.name for mover in steered.movers.values() if mover.role is Role.RELAY)
    if reporting:
        return EndView(reporting, None)
    relays = [
        each.agent for each in core.steering.movers.values() if each.role is Role.RELAY and steered.was_told_by(each)
    ]
    doubted = [each for each in core.agents.known.values() if steered.name in each.unconfirmed]
    if doubted:
        return EndView((), "; ".join(f"agent {each.name}: {unconfirmed(each)}" for each in doubted))
    lost = "; ".join(f"agent {each.name} {away}" for each in relays if (away := _away(each)))
    return EndView((), lost or "no relay agent reports a connection of it")


def _away(agent: Agent) -> str | None:
    """Return why the agent is unreachable, or None."""
    if not agent.connected:
        return f"disconnected ({agent.gone_reason})"
    return "is silent" if agent.silent else None


def _armed_failovers(
    steering: SteeringManager, terminal: str, now: float, wall_offset_s: float
) -> Iterator[ArmedFailoverView]:
    for mover in steering.movers.values():
        armed = mover.arms.get(terminal)
        if armed is not None and now < armed.at + LEASE_S:
            one = armed.failover
            until = armed.at + LEASE_S + wall_offset_s
            patience = one.no_progress_ms
            yield ArmedFailoverView(
                mover.name, one.watched, one.fallback, patience, until, armed.refused, _away(mover.agent)
            )


def decision_view(entry: LogEntry, wall_offset_s: float) -> DecisionView:
    gateway = OutcomeView(None, entry.gateway.done, entry.gateway.answer, 0, 0, 1)
    agents = (
        OutcomeView(each.agent, each.done, each.answer, each.connections, each.took_us, each.orders)
        for each in entry.agents.values()
    )
    at = entry.at + wall_offset_s
    return DecisionView(
        entry.number,
        at,
        entry.by,
        entry.uplink,
        entry.left,
        entry.reason,
        entry.hard,
        entry.copies,
        (gateway, *agents),
        entry.unmoved,
        entry.reporters,
    )
