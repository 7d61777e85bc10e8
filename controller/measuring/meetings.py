"""When the agents at a road's two ends have met: both are in session, and each meeting has a number, by which its key
is made. Whichever of them opens another session meets the other one anew, for its numbers begin at 0 again.

    both here ──► met ──► the far one is told to answer ──► it does ──► the near one is told to send

What is met stays so while one of them is away: agents go on with what they were told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controller.measuring.host import Host
from controller.measuring.pace import PAUSE_MS, PAUSE_SPARED_MS, PAUSE_WATCHED_MS
from controller.measuring.roads import HEALTH_PORT, At, Road
from controller.orders import Answer, AnswerSession, Health, HealthPath
from controller.tickets import Tickets


@dataclass(frozen=True, slots=True)
class Meeting:
    road: Road
    near: int  # sessions
    far: int
    number: int
    watched: bool  # its packets follow each other fast


class Meetings:
    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._of: dict[At, Meeting] = {}
        self._answered: frozenset[int] = frozenset()  # numbers

    def keep(self, roads: Mapping[At, Road]) -> None:
        """Those of other roads are over."""
        self._of = {at: met for at, met in self._of.items() if roads.get(at) == met.road}

    def meet(self, road: Road, near: Host, far: Host, watched: bool) -> bool:
        """Whether they had not met yet. At another pace they meet anew: no number of a packet is answered twice."""
        met = self._of.get(road.at)
        is_new = met is None or (met.near, met.far, met.watched) != (near.session, far.session, watched)
        if is_new:
            self._of[road.at] = Meeting(road, near.session, far.session, self._tickets.draw(), watched)
        return is_new

    def answered(self, numbers: Iterable[int]) -> None:
        current = {met.number for met in self._of.values()}
        self._answered = self._answered.union(numbers) & current

    def of(self, road: Road) -> Meeting | None:
        """In which the far end answers; None: it does not yet."""
        met = self._of.get(road.at)
        return met if met is not None and met.number in self._answered else None

    # What follows from it

    def answer(self, far: Host, roads: Iterable[Road]) -> Answer:
        """`roads`: those that it is an end of."""
        return Answer(tuple(_session(met) for met in self._met(roads) if met.far == far.session))

    def health(self, near: Host, roads: Iterable[Road]) -> Health:
        ours = (met for met in self._met(roads) if met.near == near.session and met.number in self._answered)
        return Health(tuple(map(_path, ours)))

    def _met(self, roads: Iterable[Road]) -> Iterator[Meeting]:
        return (self._of[road.at] for road in roads if road.at in self._of)


def _session(met: Meeting) -> AnswerSession:
    return AnswerSession(met.road.number, HEALTH_PORT, met.road.probe_port, met.number)


def _path(met: Meeting) -> HealthPath:
    road = met.road
    spared = road.budget_bytes_per_day is not None or road.air is not None
    pause_ms = PAUSE_SPARED_MS if spared else PAUSE_WATCHED_MS if met.watched else PAUSE_MS
    return HealthPath(road.uplink, road.way, HEALTH_PORT, road.number, pause_ms, met.number)
