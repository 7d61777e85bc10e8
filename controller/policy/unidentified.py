"""How much of what an uplink brings cannot be told from other packets, so that every copy of it passes.

Received packets that a device merged (GRO, LRO) are the usual cause: they are longer than the eliminator looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.counting import counted
from controller.reports import PathCopies

MAX_SHARE = 0.01
WINDOW_S = 10.0
MIN_PACKETS = 200  # of fewer nothing is concluded, and the window lasts on


@dataclass(frozen=True, slots=True)
class Uplink:
    """A window of its counters, and what the one before has shown."""

    begun: PathCopies
    since: float
    because: str | None = None  # why copies pass; None: they do not


Uplinks = Mapping[str, Uplink]


def reported(uplinks: Uplinks, paths: Mapping[str, PathCopies], now: float) -> dict[str, Uplink]:
    """What is known of each uplink after a report."""
    return {name: _next(uplinks.get(name), path, now) for name, path in paths.items()}


def _next(before: Uplink | None, path: PathCopies, now: float) -> Uplink:
    if before is None or path.arrived < before.begun.arrived or path.unidentified < before.begun.unidentified:
        return Uplink(path, now)  # the counters have begun anew
    unidentified = path.unidentified - before.begun.unidentified
    packets = path.arrived - before.begun.arrived + unidentified
    if now - before.since < WINDOW_S or packets < MIN_PACKETS:
        return before
    if unidentified <= MAX_SHARE * packets:
        return Uplink(path, now)
    share = f"{unidentified / packets:.0%} of {counted(packets, 'packets')} in {now - before.since:.0f} s"
    return Uplink(path, now, f"every copy passes of {share}, which are too long (merged by GRO or LRO?) or damaged")
