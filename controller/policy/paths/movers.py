# SPDX-License-Identifier: Apache-2.0
"""The choice of the agent that moves a terminal's connections: one agent at most, as both ends' backup flags are OR-ed.

The end that serves connections moves them one by one, if an agent of role relay holds the userspace path manager there.
Otherwise the terminal's own agent moves them by endpoint, which reaches the terminal's connections alone. Flags that
the terminal's end has set can only be cleared there: the terminal's agent moves, and agents that serve the same
connections clear theirs. An unlisted server never replaces the terminal's own agent.

A dead path is different: either end closes its subflow, and no flag remains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.policy.paths.evidence import SubflowFlags, TerminalConnections
from controller.protocol.reports import PathManager, Role


@dataclass(frozen=True, slots=True)
class Reach:
    """One agent's relation to one terminal."""

    agent: str
    role: Role
    path_manager: PathManager
    unable: str | None  # the agent's reason why it can move nothing
    standing: TerminalConnections | None  # in the agent's last report
    serves_others: bool  # it also serves MPTCP connections of other clients
    listed: bool = False  # role relay: a server in gateway.yaml, or an added relay


@dataclass(frozen=True, slots=True)
class ReachChoice:
    movers: tuple[str, ...] = ()  # agents
    guards: tuple[str, ...] = ()  # agents that can leave a dead path; only the sending end sees it die
    letting_go: tuple[str, ...] = ()  # agents that must take their flags back first
    unmoved: str | None = None  # why there are no movers
    wider: str | None = None  # why an override is refused: the order would also move other clients


NOBODY = "no agent can move its connections"


def choose(reaches: Iterable[Reach]) -> ReachChoice:
    """Return the agents that move a terminal. Of several agents of its own, the first in `reaches` counts."""
    all_of_them = list(reaches)
    serving = [each for each in all_of_them if each.role is Role.RELAY and each.standing]
    own = next((each for each in all_of_them if each.role is Role.TERMINAL and not each.unable), None)
    able = [each for each in serving if not each.unable and each.path_manager is PathManager.USERSPACE]
    by_connection = [each for each in able if each.listed or own is None]
    guards = tuple(each.agent for each in (*by_connection, *([own] if own else [])))
    if own and (not by_connection or any(_flagged(each, by_us=False) for each in by_connection)):
        letting_go = tuple(each.agent for each in able if _flagged(each, by_us=True))
        return ReachChoice(movers=(own.agent,), guards=guards, letting_go=letting_go)
    if by_connection:
        return ReachChoice(movers=tuple(each.agent for each in by_connection), guards=guards)
    return ReachChoice(unmoved=_why(all_of_them), wider=_why_wider(serving))


def astray(standing: TerminalConnections, uplink: str) -> frozenset[int]:
    """Return connections that can use the uplink but do not prefer it yet, most of them new."""
    return frozenset(token for token, held in standing.connections.items() if _is_astray(held, uplink))


def _is_astray(subflows: list[SubflowFlags], uplink: str) -> bool:
    there = [each for each in subflows if each.uplink == uplink]
    elsewhere = [each for each in subflows if each.uplink != uplink]
    if not there or all(each.by_peer for each in there):
        return False
    return all(each.by_us for each in there) or any(not (each.by_us or each.by_peer) for each in elsewhere)


def _flagged(reach: Reach, by_us: bool) -> bool:
    if reach.standing is None:
        return False
    held = (each for subflows in reach.standing.connections.values() for each in subflows)
    return any(each.by_us if by_us else each.by_peer for each in held)


def _why(reaches: list[Reach]) -> str:
    reasons = [f"{each.agent}: {each.unable}" for each in reaches if each.unable]
    reasons += [
        f"{each.agent} serves it with the kernel's path manager, which cannot change one client's path alone"
        for each in reaches
        if each.role is Role.RELAY and each.standing and not each.unable
    ]
    return "; ".join((NOBODY, *reasons))


def _why_wider(serving: list[Reach]) -> str | None:
    """Return why an order would also move other clients, or None."""
    wide = next((each for each in serving if not each.unable and each.serves_others), None)
    if wide is None:
        return None
    return (
        f"{wide.agent} serves it and others with the kernel's path manager, which changes a path for every client: "
        "nothing was moved; run that agent before the connections open, so that the userspace path manager owns "
        "them (bicast-agent run --role relay)"
    )
