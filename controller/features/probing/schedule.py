# SPDX-License-Identifier: Apache-2.0
"""The times, order and packets of probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.features.probing.path_record import PathEstimate
from controller.features.probing.probed_paths import (
    AGAIN_AFTER_S,
    FIRST_AFTER_S,
    At,
    ProbedPath,
    SentProbe,
    paid_at,
    period_s,
)
from controller.protocol.orders import Probe

# The plan of a probe
#
# Packets that queue behind one another measure nothing, so slow and new paths get longer pauses in both directions. On
# a fast path a packet's transmission time is small beside the hosts' own time, so it needs more packets. Slow and
# metered paths get the fewest packets that suffice.

SHORTEST_UP = 16  # bytes of UDP payload
SHORTEST_DOWN = 64
LONGEST = 1440
STEP = 16
TRAINS, TRAIN_PACKETS = 10, 40
TRAINS_FEW, TRAIN_PACKETS_PAID = 8, 18
SLOW_BPS, FAST_BPS = 2e6, 50e6
TRIES, TRIES_FAST, TRIES_FEW = 10, 100, 3
PAUSE_US, PAUSE_FAST_US = 10_000, 1_000
PAUSE_NEW_US = 40_000  # on a new path: 0.3 Mbit/s with the longest packets
LONGEST_PAUSE_US = 500_000
APART = 10  # shortest pause, in transmission times of the packet
HEADERS = 62  # bytes of Ethernet, IPv6 and UDP; IPv4 has less
SMALL = 64 + HEADERS  # an answer, or the request for a long one


@dataclass(frozen=True, slots=True)
class ProbePlan:
    shortest: int
    tries: int
    pause_us: int
    trains: int
    train_packets: int

    @property
    def lasts_s(self) -> float:
        return self.packets * self.pause_us / 1e6  # a train takes as long as its packets would alone

    @property
    def packets(self) -> int:
        return len(self._lengths) * self.tries + self.trains * self.train_packets

    @property
    def bytes(self) -> int:
        """The bytes in both directions."""
        long = self.tries * sum(self._lengths) + self.trains * self.train_packets * LONGEST
        return long + self.packets * (HEADERS + SMALL)

    @property
    def _lengths(self) -> range:
        return range(self.shortest, LONGEST + 1, STEP)

    def order(self, path: ProbedPath, down: bool, meeting: int) -> Probe:
        return Probe(
            name=path.uplink,
            route=path.route,
            port=path.probe_port,
            down=down,
            shortest_bytes=self.shortest,
            longest_bytes=LONGEST,
            step_bytes=STEP,
            tries=self.tries,
            pause_us=self.pause_us,
            trains=self.trains,
            train_packets=self.train_packets,
            meeting=meeting,
        )


def plan(
    down: bool, bps: float | None, paid: bool = False, back_bps: float | None = None, new: bool = False
) -> ProbePlan:
    """Return the plan. `bps`, `back_bps`: the last measurement per direction, or None. `new`: never probed."""
    shortest = SHORTEST_DOWN if down else SHORTEST_UP
    long_us, small_us = _apart_us(LONGEST + HEADERS, bps), _apart_us(SMALL, back_bps)
    if bps is not None and bps > FAST_BPS and small_us <= PAUSE_US and not paid:
        return ProbePlan(shortest, TRIES_FAST, max(PAUSE_FAST_US, small_us), TRAINS, TRAIN_PACKETS)
    pause_us = min(max(PAUSE_NEW_US if new else PAUSE_US, long_us, small_us), LONGEST_PAUSE_US)
    if paid:
        return ProbePlan(shortest, TRIES_FEW, pause_us, TRAINS_FEW, TRAIN_PACKETS_PAID)
    if new or (bps is not None and bps < SLOW_BPS):
        return ProbePlan(shortest, TRIES_FEW, pause_us, TRAINS_FEW, TRAIN_PACKETS)
    return ProbePlan(shortest, TRIES, pause_us, TRAINS, TRAIN_PACKETS)


def _apart_us(length: int, bps: float | None) -> int:
    return round(APART * length * 8e6 / bps) if bps else 0


# Turns: an agent probes one path in one direction at a time, and people's requests go first
#
#     due ──► begun ──► reported (whole or not) ──► due again, as probed_paths.py says
#               │
#               └──► refused, or its agent gone: the turn is free

PathDirection = tuple[At, bool]  # a path, and whether down

REPORTED_WITHIN_S = 60.0  # after the planned end of a probe


@dataclass(frozen=True, slots=True)
class Turn:
    path: ProbedPath
    down: bool
    session: int  # of the near end's agent
    until: float
    link_bps: float | None
    before: SentProbe | None  # the previous probe

    @property
    def heading(self) -> PathDirection:
        return self.path.at, self.down


class Turns:
    def __init__(self) -> None:
        self.requested: dict[
            PathDirection, float | None
        ] = {}  # people's requests, in order; value: a known link's rate
        self._running: dict[int, Turn] = {}  # by directive

    def ask(self, heading: PathDirection, link_bps: float | None) -> None:
        self.requested.pop(heading, None)
        self.requested[heading] = link_bps

    def keep(self, headings: Iterable[PathDirection]) -> None:
        there = set(headings)
        self.requested = {heading: link for heading, link in self.requested.items() if heading in there}

    def is_free(self, path: ProbedPath) -> bool:
        return {end for turn in self._running.values() for end in turn.path.ends}.isdisjoint(path.ends)

    def runs(self, heading: PathDirection) -> bool:
        return any(turn.heading == heading for turn in self._running.values())

    def begin(
        self,
        path: ProbedPath,
        down: bool,
        session: int,
        lasts_s: float,
        before: SentProbe | None,
        directive: int,
        now: float,
    ) -> None:
        until = now + 2 * lasts_s + REPORTED_WITHIN_S
        link_bps = self.requested.pop((path.at, down), None)
        self._running[directive] = Turn(path, down, session, until, link_bps, before)

    def end(self, directive: int) -> Turn | None:
        return self._running.pop(directive, None)

    def gone(self, session: int) -> list[Turn]:
        return self._end(directive for directive, turn in self._running.items() if turn.session == session)

    def late(self, now: float) -> list[Turn]:
        return self._end(directive for directive, turn in self._running.items() if now > turn.until)

    def _end(self, directives: Iterable[int]) -> list[Turn]:
        return [self._running.pop(directive) for directive in list(directives)]


# The timetable. Terminals of one access point share a turn, as they share the air.

NEW = PathEstimate()
DIRECTIONS = (False, True)  # up and down

Pages = Mapping[PathDirection, PathEstimate]
Air = tuple[str, str]  # a site's name, and an access point's


class Timetable:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._paths: Mapping[At, ProbedPath] = {}
        self._answer_since: dict[At, float] = {}  # by path
        self._not_before: dict[PathDirection, float] = {}  # after a probe could not begin
        self._seen: Pages = {}  # the pages that `_last` was computed from
        self._last: Mapping[Air, PathDirection] = {}

    def keep(self, paths: Mapping[At, ProbedPath]) -> None:
        self._paths, self._seen, self._last = paths, {}, {}
        self._answer_since = {at: since for at, since in self._answer_since.items() if at in paths}
        self._not_before = {heading: at for heading, at in self._not_before.items() if heading[0] in paths}

    def answers(self, path: ProbedPath, now: float) -> None:
        self._answer_since.setdefault(path.at, now)

    def silent(self, path: ProbedPath) -> None:
        self._answer_since.pop(path.at, None)

    def refused(self, heading: PathDirection, now: float) -> None:
        self._not_before[heading] = now + AGAIN_AFTER_S

    def due(self, headings: Iterable[PathDirection], pages: Pages, now: float) -> list[PathDirection]:
        """Return the due probes: requests of people first, then those that waited longest."""
        found = []
        for heading in headings:
            at = self.due_at(heading, pages, now)
            if at is not None and at <= now:
                spent = _page(pages, heading).spent
                found.append((heading not in self._turns.requested, at, spent.at if spent else float("-inf"), heading))
        return [heading for *_, heading in sorted(found)]

    def due_at(self, heading: PathDirection, pages: Pages, now: float) -> float | None:
        """Return the time of the next probe, or None if it is not known."""
        at, path = heading[0], self._paths[heading[0]]
        if heading in self._turns.requested or at not in self._answer_since:
            return now if heading in self._turns.requested else None
        due_at = max(self._answer_since[at] + FIRST_AFTER_S, self._not_before.get(heading, now), _again(heading, pages))
        last = self._last_over((path.site, path.access_point), pages) if path.access_point is not None else None
        if last is not None:
            due_at = max(due_at, _again(last, pages))
        budget = path.budget_bytes_per_day
        if budget is None:
            return due_at
        spent = (_page(pages, (at, down)).spent for down in DIRECTIONS)
        paid = paid_at((one for one in spent if one is not None), self.plan(heading, pages).bytes, budget)
        return None if paid is None else max(due_at, paid)

    def plan(self, heading: PathDirection, pages: Pages) -> ProbePlan:
        """Return the plan of a probe. A request of a person always gets a full probe, regardless of cost."""
        (at, down), page, asked = heading, _page(pages, heading), heading in self._turns.requested
        bps, back_bps = (
            self._turns.requested.get(heading) or page.probed_bps(),
            _page(pages, (at, not down)).probed_bps(),
        )
        paid = self._paths[at].budget_bytes_per_day is not None and not asked
        return plan(down, bps, paid, back_bps, bps is None and page.spent is None and not asked)

    def _last_over(self, air: Air, pages: Pages) -> PathDirection | None:
        if pages is not self._seen:
            spent = ((page.spent.at, heading) for heading, page in pages.items() if page.spent is not None)
            there = ((self._paths[heading[0]], heading) for _, heading in sorted(spent) if heading[0] in self._paths)
            self._last = {
                (path.site, path.access_point): heading for path, heading in there if path.access_point is not None
            }
            self._seen = pages
        return self._last.get(air)


def _again(heading: PathDirection, pages: Pages) -> float:
    at, down = heading
    page = _page(pages, heading)
    if page.spent is None:
        return float("-inf")
    back_bps = _page(pages, (at, not down)).probed_bps()
    return page.spent.at + period_s(page.spent.bytes, page.probed_bps(), back_bps)


def _page(pages: Pages, heading: PathDirection) -> PathEstimate:
    return pages.get(heading, NEW)
