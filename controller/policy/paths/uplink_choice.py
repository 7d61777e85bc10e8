# SPDX-License-Identifier: Apache-2.0
"""The choice of the uplink that a terminal prefers, with its reason.

The best health wins. Among equals the uplink in use stays; one that was bad until it fell silent counts as lossy. A
terminal returns to its default uplink when that is known to be good. If nothing is known of it any more, the terminal
returns after a pause that doubles with every failed return: an idle uplink can only be tried.

A lossy uplink may still carry more than a clean one. It is not left for one that is known to carry less than it
delivers, and a terminal returns when the other one, fully used, turns out to carry less. Where the losses do not slow
the senders down, the terminal moves only to an uplink that is known to carry as much: no trial is made at its cost.

A terminal that was moved MOST_MOVES times within MOVES_WITHIN_S stays for a while. So false reports can move it, but
not to and fro. A port that is down still moves it, because the switch reports that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.policy.bandwidth.rates import rate_text
from controller.policy.paths.health import LIMITED_FOR_S, UplinkHealth, UplinkPath

RANK = {UplinkHealth.GOOD: 0, UplinkHealth.UNKNOWN: 1, UplinkHealth.LOSSY: 2, UplinkHealth.DEAD: 3}
RETURN_AFTER_S = 30.0  # pause before a trial return; doubles with each failed one
RETURN_AT_MOST_S = 600.0
KEPT_AFTER_S = 60.0  # a return to the default uplink has succeeded after this time
MOST_MOVES = 3  # away, back when that was worse, and away again
MOVES_WITHIN_S = 15.0  # after MOST_MOVES in this time the terminal stays
REGAINS_S = 10.0  # after a return, until the uplink delivers as before: other queues drain first
WORTH = 0.9  # a clean uplink that carries this share of the lossy one's rate is preferred


@dataclass(frozen=True, slots=True)
class UplinkDecision:
    terminal: str
    prefer: str  # an uplink's name
    reason: str
    at: float  # of the core's clock
    hard: bool  # data in flight on the old uplink must be retransmitted


@dataclass(frozen=True, slots=True)
class AbandonedUplink:
    """The lossy uplink that a policy left last, and what it delivered."""

    uplink: str
    delivered_bps: float


@dataclass(frozen=True, slots=True)
class Course:
    """A terminal's active uplink, its last moves and its failed returns."""

    active: str
    since: float
    returns_failed: int = 0
    returned: bool = False  # it came back to its default uplink, which can fail
    moves: tuple[float, ...] = ()  # times of the last moves
    left: AbandonedUplink | None = None
    regains: AbandonedUplink | None = None  # set if it has come back to the uplink that it left

    def moved(self, to: str, default: str, now: float, left: AbandonedUplink | None = None) -> Course:
        moves = (*self.moves, now)[-MOST_MOVES:]
        regains = self.left if self.left is not None and self.left.uplink == to else None
        if to == default:
            return Course(to, now, self.returns_failed, True, moves, left, regains)
        failed = self.returns_failed
        if self.active == default:
            failed = failed + 1 if self.returned and now - self.since < KEPT_AFTER_S else 0
        return Course(to, now, failed, False, moves, left, regains)

    def delivers_bps(self, path: UplinkPath, now: float) -> float:
        known = self.regains.delivered_bps if self.regains is not None and now - self.since < REGAINS_S else 0.0
        return max(known, path.throughput.delivered_bps(now))

    def rests(self, now: float) -> bool:
        return len(self.moves) == MOST_MOVES and now - self.moves[0] < MOVES_WITHIN_S


def decide(
    terminal: str, default: str, course: Course, paths: Mapping[str, UplinkPath], now: float
) -> UplinkDecision | None:
    """Return a move, or None to stay. `paths` has every usable uplink, in order of preference."""
    active = paths.get(course.active)
    if active is None or (course.rests(now) and active.port_up):
        return None
    better = _better_abandoned(course, paths, now)
    if better is not None:
        return UplinkDecision(
            terminal, better.uplink, _slower_reason(course.active, active, better, now), now, hard=False
        )
    worth = [
        name for name, path in paths.items() if name == course.active or not _is_no_better(path, course, active, now)
    ]
    ranks = {name: _rank(paths[name], now) for name in worth}
    best = min(worth, key=lambda name: (ranks[name], name != course.active, name != default))
    bad = active.health in (UplinkHealth.LOSSY, UplinkHealth.DEAD)  # an unknown uplink is no reason to leave
    if bad and ranks[best] < ranks[course.active]:
        reason = f"{_state(course.active, active)}; {_state(best, paths[best])}"
        return UplinkDecision(terminal, best, reason, now, hard=active.health is UplinkHealth.DEAD)
    if course.active != default and default in paths and _may_return(course, paths[default], now):
        reason = f"{_state(default, paths[default])}; it is the default"
        if paths[default].health is not UplinkHealth.GOOD:
            reason += f", and is tried again after {_pause(course):.0f} s"
        return UplinkDecision(terminal, default, reason, now, hard=False)
    return None


def _rank(path: UplinkPath, now: float) -> int:
    """Return the rank. An uplink that fell silent while bad counts as lossy for a while, to avoid flapping."""
    suspect = path.health is UplinkHealth.UNKNOWN and path.before in (UplinkHealth.LOSSY, UplinkHealth.DEAD)
    return RANK[UplinkHealth.LOSSY if suspect and now - path.since < RETURN_AFTER_S else path.health]


def left_by(decision: UplinkDecision, active: str, path: UplinkPath) -> AbandonedUplink | None:
    """Return the uplink that a decision leaves, with its rate, or None if it is not lossy."""
    if path.health is not UplinkHealth.LOSSY:
        return None
    return AbandonedUplink(active, path.throughput.delivered_bps(decision.at))


def kept_because(course: Course, paths: Mapping[str, UplinkPath], now: float) -> str | None:
    """Return why a lossy uplink is kept although others are healthier, or None."""
    path = paths[course.active]
    if path.health is not UplinkHealth.LOSSY:
        return None
    better = [name for name, other in paths.items() if _rank(other, now) < _rank(path, now)]
    if not better or not all(_is_no_better(paths[name], course, path, now) for name in better):
        return None
    delivers = f"it delivers {rate_text(course.delivers_bps(path, now))}"
    if path.slows_nobody:
        delivers += " to senders that losses do not slow down"
    return f"it is kept: {delivers}, and {', '.join(_carries(name, paths[name], now) for name in better)}"


def _carries(name: str, path: UplinkPath, now: float) -> str:
    carries = path.throughput.carries_bps(now)
    return (
        f"{name} carries {rate_text(carries)} at most"
        if carries is not None
        else f"the capacity of {name} is not known"
    )


def _is_no_better(other: UplinkPath, course: Course, active: UplinkPath, now: float) -> bool:
    """Return whether `other` is no reason to leave the active uplink. A dead one is always left."""
    if active.health is UplinkHealth.DEAD:
        return False
    carries = other.throughput.carries_bps(now)
    if carries is None:
        return active.health is UplinkHealth.LOSSY and active.slows_nobody
    return carries < WORTH * course.delivers_bps(active, now)


def _better_abandoned(course: Course, paths: Mapping[str, UplinkPath], now: float) -> AbandonedUplink | None:
    """Return the uplink left before, if the active one, fully used since, carries less."""
    left, throughput = course.left, paths[course.active].throughput
    if left is None or left.uplink not in paths or paths[left.uplink].health is UplinkHealth.DEAD:
        return None
    measured = throughput.limit_at is not None and throughput.limit_at > course.since + LIMITED_FOR_S
    return left if measured and throughput.limit_bps < WORTH * left.delivered_bps else None


def _slower_reason(active: str, path: UplinkPath, left: AbandonedUplink, now: float) -> str:
    """Return why the terminal goes back to the uplink that it left."""
    return (
        f"{_carries(active, path, now)}, and {left.uplink} delivered {rate_text(left.delivered_bps)} when it was left"
    )


def _state(name: str, path: UplinkPath) -> str:
    return f"{name} is {path.health} ({path.reason})"


def _pause(course: Course) -> float:
    return min(RETURN_AFTER_S * 2.0**course.returns_failed, RETURN_AT_MOST_S)


def _may_return(course: Course, default: UplinkPath, now: float) -> bool:
    if default.health is UplinkHealth.GOOD:
        return True
    waited = now - max(course.since, default.since)
    return default.health is UplinkHealth.UNKNOWN and default.port_up and waited >= _pause(course)
