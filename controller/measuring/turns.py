"""Whose turn it is to be probed: one road in one direction at a time of each agent, and first what a person asked for.

due ──► begun ──► told of (whole or not) ──► due again, as pace.py says
          │
          └──► refused, or its agent gone: the turn is free
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.measuring.pace import Sent
from controller.measuring.roads import At, Road

Heading = tuple[At, bool]  # a road, and whether down

TOLD_WITHIN_S = 60.0  # of when a probe should be over


@dataclass(frozen=True, slots=True)
class Turn:
    road: Road
    down: bool
    session: int  # of the near end's agent
    until: float
    link_bps: float | None
    before: Sent | None  # by the probe before

    @property
    def heading(self) -> Heading:
        return self.road.at, self.down


class Turns:
    def __init__(self) -> None:
        self.asked: dict[Heading, float | None] = {}  # by people, in this order; with the rate of a known link
        self._running: dict[int, Turn] = {}  # by directive

    def ask(self, heading: Heading, link_bps: float | None) -> None:
        self.asked.pop(heading, None)
        self.asked[heading] = link_bps

    def keep(self, headings: Iterable[Heading]) -> None:
        there = set(headings)
        self.asked = {heading: link for heading, link in self.asked.items() if heading in there}

    def is_free(self, road: Road) -> bool:
        """Neither of its ends measures anything."""
        return {end for turn in self._running.values() for end in turn.road.ends}.isdisjoint(road.ends)

    def runs(self, heading: Heading) -> bool:
        return any(turn.heading == heading for turn in self._running.values())

    def begin(
        self, road: Road, down: bool, session: int, lasts_s: float, before: Sent | None, directive: int, now: float
    ) -> None:
        until = now + 2 * lasts_s + TOLD_WITHIN_S
        link_bps = self.asked.pop((road.at, down), None)
        self._running[directive] = Turn(road, down, session, until, link_bps, before)

    def end(self, directive: int) -> Turn | None:
        return self._running.pop(directive, None)

    def gone(self, session: int) -> list[Turn]:
        """Those of an agent that is."""
        return self._end(directive for directive, turn in self._running.items() if turn.session == session)

    def late(self, now: float) -> list[Turn]:
        return self._end(directive for directive, turn in self._running.items() if now > turn.until)

    def _end(self, directives: Iterable[int]) -> list[Turn]:
        return [self._running.pop(directive) for directive in list(directives)]
