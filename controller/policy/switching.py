"""Which uplink a terminal should prefer, and why.

The best health wins; among equals the one in use stays, and what was bad until it fell silent is no better than lossy.
A terminal goes back to its default uplink when that is known to be good, or, when nothing is known of it any more,
after a pause that doubles with every return that failed: an uplink that carries nothing can only be tried.

Whatever is reported, a terminal that was moved a few times in a short while rests: it is moved at once, and cannot be
driven to and fro. Only a port that is down moves it all the same, for that is told by the switch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.policy.health import Health, Path

RANK = {Health.GOOD: 0, Health.UNKNOWN: 1, Health.LOSSY: 2, Health.DEAD: 3}
RETURN_AFTER_S = 30.0
RETURN_AT_MOST_S = 600.0
KEPT_AFTER_S = 60.0  # on the default uplink for so long: the return has not failed
MOST_MOVES = 3  # away, back when that was worse, and away again
MOVES_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class Decision:
    terminal: str
    prefer: str  # an uplink's name
    because: str
    at: float  # of the core's clock
    hard: bool  # what is in flight on the old one must be sent again


@dataclass(frozen=True, slots=True)
class Course:
    """Where a terminal is, and how its returns went."""

    active: str
    since: float
    returns_failed: int = 0
    returned: bool = False  # that it is on its default is a return, which can fail
    moves: tuple[float, ...] = ()  # when the last ones were

    def moved(self, to: str, default: str, now: float) -> Course:
        moves = (*self.moves, now)[-MOST_MOVES:]
        if to == default:
            return Course(to, now, self.returns_failed, True, moves)
        failed = self.returns_failed
        if self.active == default:
            failed = failed + 1 if self.returned and now - self.since < KEPT_AFTER_S else 0
        return Course(to, now, failed, False, moves)

    def rests(self, now: float) -> bool:
        return len(self.moves) == MOST_MOVES and now - self.moves[0] < MOVES_WITHIN_S


def decide(terminal: str, default: str, course: Course, paths: Mapping[str, Path], now: float) -> Decision | None:
    """None: stay. `paths` has every uplink that can carry the terminal, in order of preference."""
    active = paths.get(course.active)
    if active is None or (course.rests(now) and active.port_up):
        return None
    ranks = {name: _rank(path, now) for name, path in paths.items()}
    best = min(paths, key=lambda name: (ranks[name], name != course.active, name != default))
    bad = active.health in (Health.LOSSY, Health.DEAD)  # that nothing is known is no reason to leave
    if bad and ranks[best] < ranks[course.active]:
        because = f"{_told(course.active, active)}; {_told(best, paths[best])}"
        return Decision(terminal, best, because, now, hard=active.health is Health.DEAD)
    if course.active != default and default in paths and _may_return(course, paths[default], now):
        because = f"{_told(default, paths[default])}; it is the default"
        if paths[default].health is not Health.GOOD:
            because += f", and tried again after {_pause(course):.0f} s"
        return Decision(terminal, default, because, now, hard=False)
    return None


def _rank(path: Path, now: float) -> int:
    """One that was bad when it was last heard of counts as lossy for a while: else two of them take turns."""
    suspect = path.health is Health.UNKNOWN and path.before in (Health.LOSSY, Health.DEAD)
    return RANK[Health.LOSSY if suspect and now - path.since < RETURN_AFTER_S else path.health]


def _told(name: str, path: Path) -> str:
    return f"{name} is {path.health} ({path.because})"


def _pause(course: Course) -> float:
    return min(RETURN_AFTER_S * 2.0**course.returns_failed, RETURN_AT_MOST_S)


def _may_return(course: Course, default: Path, now: float) -> bool:
    if default.health is Health.GOOD:
        return True
    waited = now - max(course.since, default.since)
    return default.health is Health.UNKNOWN and default.port_up and waited >= _pause(course)
