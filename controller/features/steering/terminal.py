# SPDX-License-Identifier: Apache-2.0
"""One steered terminal: the health of its uplinks, its active uplink, and its original backup flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controller.features.steering.mover import Mover
from controller.model.config import Mode, Site, Terminal
from controller.model.in_force import InForce
from controller.model.redundancy import PacketUplinks
from controller.policy.paths import health
from controller.policy.paths.evidence import TerminalConnections
from controller.policy.paths.failover import ArmedFailover, failover
from controller.policy.paths.health import SilentUplink, Throughput, UplinkPath, UplinkReading
from controller.policy.paths.movers import Reach, ReachChoice, choose
from controller.policy.paths.uplink_choice import Course, UplinkDecision, decide, kept_because, left_by
from controller.policy.paths.uplinks import Paths, able, paths, way
from controller.protocol.orders import Prefer
from controller.protocol.reports import Role

# The original backup flags of one end: the owner of a host may have flagged metered uplinks, and gets the flags back
#
#     original ──ordered, or failover fired──► ours ──restored, and confirmed──► original
#        └── flags look like a choice from before a restart ──► ours, with unknown original flags

SEEN_AFTER_S = 2.0  # reports may be in flight when an agent moves connections
AGAIN_AFTER_S = 30.0


class OriginalBackupFlags:
    """The original flags at one agent for one terminal."""

    def __init__(self) -> None:
        self.ours = False  # the flags may be ours, also from before a restart
        self._before: dict[str, bool] = {}  # by uplink: whether backup, up to the second-last report
        self._last: dict[str, bool] = {}  # kept apart: a failover may precede this report and be reported after it
        self._restoring: int | None = None  # the open directive that restores the flags
        self._asked_at: float | None = None  # when it was sent; None: not since our last change
        self._ignores_until = 0.0  # earlier reports may still show our flags

    @property
    def reported_flags(self) -> dict[str, bool]:
        """Return the original flags from reports, by uplink: whether it is backup."""
        return {**self._last, **self._before}

    def reported(self, standing: TerminalConnections | None, chosen: str | None, now: float) -> None:
        """Record the flags in a report. `chosen`: the uplink that a person or a policy chose."""
        if self.ours or now < self._ignores_until:
            return
        flags = _flags(standing)
        if chosen is not None and not self.reported_flags and any(flags.values()) and not flags.get(chosen):
            self.ours = True
            return
        self._before |= self._last
        self._last = flags

    def moved(self) -> None:
        self.ours, self._restoring, self._asked_at = True, None, None

    def backup(self, uplinks: Iterable[str], default: str, at_terminal: bool) -> tuple[str, ...]:
        """Return the uplinks that were backup originally.

        At a terminal, an uplink without a report counts as backup unless it is the default: only the owner may allow
        the cost. A server has no such cost, and the terminal's own flags apply as well.
        """
        names, known = list(uplinks), self.reported_flags
        found = [name for name in names if known.get(name, at_terminal and name != default)]
        if len(found) < len(names):
            return tuple(found)
        spared = default if default in names else names[0]  # if all paths are backup, none is
        return tuple(name for name in names if name != spared)

    def is_due(self, now: float) -> bool:
        return self.ours and (self._asked_at is None or now - self._asked_at >= AGAIN_AFTER_S)

    def gives_back(self, directive: int, now: float) -> None:
        self.ours, self._restoring, self._asked_at = True, directive, now

    def answered(self, directive: int, reached: bool, now: float) -> None:
        """Record whether the agent has restored the flags."""
        if directive != self._restoring:
            return
        self._restoring = None
        if reached:
            self.ours, self._ignores_until = False, now + SEEN_AFTER_S


def _flags(standing: TerminalConnections | None) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for subflows in standing.connections.values() if standing else ():
        for each in subflows:
            found[each.uplink] = found.get(each.uplink, False) or each.by_us
    return found


ONE_PATH = "the terminal's own addresses all belong to one uplink"
REPORTED_LATELY_S = 5.0  # a window of reports (policy/paths/health.py) and a late report
FOLLOWED_FOR_S = 30.0  # a connection that did not move is ordered again after this time


@dataclass(frozen=True, slots=True)
class Failed:
    """An order that moved no connection."""

    tokens: frozenset[int]
    why: str
    at: float


class Steered:
    def __init__(self, site: Site, terminal: Terminal, in_force: InForce, now: float) -> None:
        self.site, self.terminal = site, terminal
        self.where = paths(site, terminal.addresses)
        self._where_itself = paths(site, terminal.own)
        self.able = able(site, terminal)
        self.paths: dict[str, UplinkPath] = {
            uplink.name: UplinkPath(
                since=now, throughput=Throughput(written_bps=_written_bps(site, terminal, uplink.name))
            )
            for uplink in site.uplinks
        }
        self.course = Course(in_force.active_uplink(site, terminal), now)
        self.movers: dict[str, Mover] = {}  # live agents that report it, by name
        self.looked_at = now
        self.watched = False  # by the ends of its uplinks
        self._followed: dict[str, tuple[frozenset[int], float]] = {}  # by agent: the connections that were ordered
        self._could_not: dict[str, Failed] = {}  # by agent
        self._found: dict[str, OriginalBackupFlags] = {}  # by agent
        self._reported_at: dict[str, dict[str, float]] = {}  # by uplink and agent
        self._silent: dict[str, SilentUplink] = {}  # by uplink
        self._ended_silence: dict[str, str] = {}  # by uplink: the agent that reported the silence, until another report

    @property
    def name(self) -> str:
        return self.terminal.name

    def resume(self, other: Steered) -> None:
        for name in self.paths.keys() & other.paths.keys():
            known, written_bps = other.paths[name], self.paths[name].throughput.written_bps
            self.paths[name] = replace(known, throughput=replace(known.throughput, written_bps=written_bps))
        self._found = other._found
        self._silent = {name: one for name, one in other._silent.items() if name in self.paths}
        if other.course.active == self.course.active:
            self.course = other.course

    # Observations

    def ports_seen(self, up: Mapping[str, bool], now: float) -> None:
        self.paths |= {name: health.port_seen(self.paths[name], is_up, now) for name, is_up in up.items()}

    def silence(self, silent: Mapping[str, SilentUplink] | None, now: float) -> None:
        """Record the silent uplinks that the ends report, with or without an agent. None: no end watches them."""
        self.watched = silent is not None
        told = silent or {}
        for name, before in self._silent.items():
            if name not in told and before.reporter is not None:
                self._ended_silence[name] = before.reporter
        self._silent = dict(told)
        reason = {name: one.reason for name, one in told.items()}
        self.paths = {name: health.silence(path, reason.get(name), now) for name, path in self.paths.items()}

    def reported(self, uplink: str, reading: UplinkReading, agent: str, now: float) -> None:
        self.paths[uplink] = health.reported(self.paths[uplink], reading, now)
        if reading.segments or reading.acked_bytes or reading.stalled_ms:
            self._ended_silence.pop(uplink, None)
            self._reported_at.setdefault(uplink, {})[agent] = now

    def reporters(self, uplinks: Iterable[str], now: float) -> tuple[str, ...]:
        """Return the agents whose reports decided the health of these uplinks. A port's state is no report."""
        found: dict[str, None] = {}
        for uplink in uplinks:
            path, silent = self.paths.get(uplink), self._silent.get(uplink)
            if path is None or not path.port_up:
                continue
            if silent is None:
                if uplink in self._ended_silence:
                    found[self._ended_silence[uplink]] = None
                lately = self._reported_at.get(uplink, {}).items()
                found |= {agent: None for agent, at in lately if now - at <= REPORTED_LATELY_S}
            elif silent.reporter is not None:
                found[silent.reporter] = None
        return tuple(found)

    def fired(self, failover: ArmedFailover, stalled_ms: int, now: float) -> None:
        self.paths[failover.watched] = health.fired(self.paths[failover.watched], stalled_ms, failover.limits, now)

    def flags_seen(self, mover: Mover, in_force: InForce, now: float) -> None:
        self.found(mover).reported(mover.standings.get(self.name), self.standing(in_force), now)

    def passed(self, now: float) -> None:
        self.looked_at = now
        self.paths = {name: health.passed(path, now) for name, path in self.paths.items()}

    def can_use(self, *uplinks: str) -> bool:
        """Return whether the terminal can use these uplinks. The configuration may no longer have them."""
        return all(uplink in self.able for uplink in uplinks)

    def attended(self, mover: Mover) -> None:
        self.movers[mover.name] = mover

    def left(self, mover: Mover, why: str, now: float) -> None:
        """Remove an agent. Without any agent the health is unknown, and the active uplink stays."""
        if self.movers.pop(mover.name, None) and not self.movers:
            self.paths = {name: health.unheard(path, why, now) for name, path in self.paths.items()}
        self._followed.pop(mover.name, None)
        self._could_not.pop(mover.name, None)

    # Decisions

    def moved_since(self, moment: float) -> bool:
        return self.course.since > moment

    def standing(self, in_force: InForce) -> str | None:
        """Return the chosen uplink, or None.

        A relayed terminal is on its default uplink: its connections to relays have no backup flags by themselves.
        """
        by_default = self.terminal.default_uplink if self.terminal.relayed else None
        return in_force.standing(self.site, self.terminal) or by_default

    def is_policies(self, in_force: InForce) -> bool:
        """Return whether policies steer the terminal. They need an agent or an end that watches."""
        return bool(self.movers or self.watched) and self.is_left_to_them(in_force)

    def is_left_to_them(self, in_force: InForce) -> bool:
        return (
            in_force.wished(self.site, self.terminal) is None and in_force.overrides.mode(self.terminal) is not Mode.OFF
        )

    def decision(self, now: float) -> UplinkDecision | None:
        return decide(self.name, self.terminal.default_uplink, self.course, self._able_paths, now)

    def kept_because(self, now: float) -> str | None:
        """Return why the terminal stays on a lossy uplink, or None."""
        return kept_because(self.course, self._able_paths, now) if self.course.active in self.able else None

    @property
    def _able_paths(self) -> dict[str, UplinkPath]:
        return {name: self.paths[name] for name in self.able}

    def follow(self, decision: UplinkDecision) -> None:
        active, default = self.course.active, self.terminal.default_uplink
        left = left_by(decision, active, self.paths[active])
        self.course = self.course.moved(decision.prefer, default, decision.at, left)
        self._followed.clear()

    def move(self, uplink: str, now: float) -> None:
        self.course = self.course.moved(uplink, self.terminal.default_uplink, now)
        self._followed.clear()

    def start(self, uplink: str, now: float) -> None:
        """Start a new course after an override was set or removed. Counted returns no longer apply."""
        self.course = Course(uplink, now)
        self._followed.clear()

    def choose(self, now: float) -> ReachChoice:
        by_age = sorted(self.movers.values(), key=lambda mover: mover.agent.session)
        return choose(self._reach(mover, now) for mover in by_age)

    def _reach(self, mover: Mover, now: float) -> Reach:
        """Return the agent's reach. A relay whose order failed for all of these connections leaves them to others."""
        reach = mover.reach(self.name)
        if self.where and not self.where_of(mover):
            return replace(reach, unable=reach.unable or ONE_PATH)
        failed = self._could_not.get(mover.name)
        if failed is None or now - failed.at >= FOLLOWED_FOR_S or not failed.tokens.issuperset(mover.tokens(self.name)):
            return reach
        return replace(reach, unable=failed.why)

    def could_not(self, mover: Mover, why: str, now: float) -> None:
        if mover.role is Role.RELAY:
            self._could_not[mover.name] = Failed(frozenset(mover.tokens(self.name)), why, now)

    def failover(self, mover: Mover, in_force: InForce, now: float) -> ArmedFailover | None:
        """Return the failover to arm at this agent, or None. After too many moves policies pause, and none is armed."""
        if self.course.rests(now):
            return None
        standing = mover.standings.get(self.name)
        srtt_us = standing.srtt_us.get(self.course.active, 0) if standing else 0
        over = way(self.site, self.terminal, in_force).over
        copied = mover.role is Role.TERMINAL and over is PacketUplinks.EVERY
        return failover(self.name, self.course.active, self.where_of(mover), self._able_paths, srtt_us, copied)

    def expected(self, mover: Mover, in_force: InForce, now: float) -> ArmedFailover | None:
        """Return the failover that fired, or None. One from an earlier run is assumed to be what would be armed now."""
        known = mover.fired(self.name, now)
        if known is not None:
            return known if self.can_use(known.watched, known.fallback) else None
        tells = self.name in mover.concerns or self.name in mover.agent.owns
        if not tells or not self.is_left_to_them(in_force) or not mover.arms.fired_unknown(self.name):
            return None
        own = any(each.role is Role.TERMINAL for each in self.movers.values())
        if mover.role is Role.RELAY and own and not mover.agent.listed:
            return None
        return self.failover(mover, in_force, now)

    # Orders

    def where_of(self, mover: Mover) -> Paths:
        """Return the addresses of the agent's connections, by uplink.

        The terminal's own mover does not see the gateway's addresses that carry relayed connections.
        """
        return self._where_itself if mover.role is Role.TERMINAL else self.where

    def prefer(self, mover: Mover, uplink: str, hard: bool) -> Prefer:
        """Return the order to prefer an uplink. A hard order leaves only dead paths; live ones are flagged later."""
        where = self.where_of(mover)
        others = [name for name in where if name != uplink]
        dead = [name for name in others if self.paths[name].health is health.UplinkHealth.DEAD]
        hard = hard and bool(dead)
        left = tuple(where[name] for name in (dead if hard else others))
        return Prefer(where[uplink], left, hard)

    def found(self, mover: Mover) -> OriginalBackupFlags:
        return self._found.setdefault(mover.name, OriginalBackupFlags())

    def was_told_by(self, mover: Mover) -> bool:
        return mover.name in self._found

    def found_backup(self, mover: Mover) -> tuple[str, ...]:
        default = self.terminal.default_uplink
        return self.found(mover).backup(self.where_of(mover), default, mover.role is Role.TERMINAL)

    def give_back(self, mover: Mover) -> Prefer:
        backup, where = self.found_backup(mover), self.where_of(mover)
        path = (address for name, there in where.items() if name not in backup for address in there)
        return Prefer(tuple(path), tuple(where[name] for name in backup), hard=False)

    def let_go(self, mover: Mover) -> Prefer:
        """Return the order that clears every flag, so that no path is preferred."""
        return Prefer(tuple(address for there in self.where_of(mover).values() for address in there), (), hard=False)

    def unfollowed(self, mover: Mover, tokens: Iterable[int], now: float) -> frozenset[int]:
        """Return the connections without a recent order, and mark them as ordered."""
        before, since = self._followed.get(mover.name, (frozenset(), now))
        if now - since >= FOLLOWED_FOR_S:
            before, since = frozenset(), now
        new = frozenset(tokens) - before
        if new:
            self._followed[mover.name] = (before | new, since)
        return new

    def moved_hard(self, mover: Mover, tokens: Iterable[int], now: float) -> None:
        """Record connections as ordered by a hard move. It only leaves dead paths, so they are checked again soon."""
        self._followed[mover.name] = (frozenset(tokens), now - FOLLOWED_FOR_S + SEEN_AFTER_S)


def _written_bps(site: Site, terminal: Terminal, uplink: str) -> float | None:
    relaying = site.relaying.uplinks if site.relaying and terminal.relayed else ()
    return next((each.bandwidth_bps for each in relaying if each.name == uplink), None)


def unmovable(steered: Steered, uplink: str) -> str | None:
    """Return why no agent can move the terminal to this uplink, or None."""
    if not steered.where:
        return "its addresses all belong to one uplink, so its connections have no choice of path"
    if uplink not in steered.where:
        return f"it has no address in a subnet of {uplink}"
    return None


def all_steered(
    sites: Iterable[Site], before: Mapping[str, Steered], in_force: InForce, now: float
) -> dict[str, Steered]:
    found = {}
    for site in sites:
        for terminal in site.terminals:
            found[terminal.name] = steered = Steered(site, terminal, in_force, now)
            if terminal.name in before:
                steered.resume(before[terminal.name])
    return found
