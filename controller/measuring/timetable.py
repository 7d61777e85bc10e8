"""When each road is to be probed, each way, and by how much: from when its far end was first seen to answer, and from
what probes before have cost.

Those who share an access point have one turn together: the air is one, whoever of them sends, and whichever way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.measuring.book import Page
from controller.measuring.pace import AGAIN_AFTER_S, FIRST_AFTER_S, paid_at, period_s
from controller.measuring.plan import Plan, plan
from controller.measuring.roads import At, Road
from controller.measuring.turns import Heading, Turns

NEW = Page()
DIRECTIONS = (False, True)  # down or not

Pages = Mapping[Heading, Page]
Air = tuple[str, str]  # a site's name, and an access point's


class Timetable:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._roads: Mapping[At, Road] = {}
        self._answer_since: dict[At, float] = {}  # roads by which the far end is seen to answer
        self._not_before: dict[Heading, float] = {}  # where a probe could not begin
        self._seen: Pages = {}  # of which this is the last that went over the air:
        self._last: Mapping[Air, Heading] = {}

    def keep(self, roads: Mapping[At, Road]) -> None:
        self._roads, self._seen, self._last = roads, {}, {}
        self._answer_since = {at: since for at, since in self._answer_since.items() if at in roads}
        self._not_before = {heading: at for heading, at in self._not_before.items() if heading[0] in roads}

    def answers(self, road: Road, now: float) -> None:
        self._answer_since.setdefault(road.at, now)

    def silent(self, road: Road) -> None:
        self._answer_since.pop(road.at, None)

    def refused(self, heading: Heading, now: float) -> None:
        self._not_before[heading] = now + AGAIN_AFTER_S

    def due(self, headings: Iterable[Heading], pages: Pages, now: float) -> list[Heading]:
        """First what a person asked for, and then what has waited longest."""
        found = []
        for heading in headings:
            at = self.due_at(heading, pages, now)
            if at is not None and at <= now:
                spent = _page(pages, heading).spent
                found.append((heading not in self._turns.asked, at, spent.at if spent else float("-inf"), heading))
        return [heading for *_, heading in sorted(found)]

    def due_at(self, heading: Heading, pages: Pages, now: float) -> float | None:
        """None: nothing says when."""
        at, road = heading[0], self._roads[heading[0]]
        if heading in self._turns.asked or at not in self._answer_since:
            return now if heading in self._turns.asked else None
        due_at = max(self._answer_since[at] + FIRST_AFTER_S, self._not_before.get(heading, now), _again(heading, pages))
        last = self._last_over((road.site, road.air), pages) if road.air is not None else None
        if last is not None:
            due_at = max(due_at, _again(last, pages))
        budget = road.budget_bytes_per_day
        if budget is None:
            return due_at
        spent = (_page(pages, (at, down)).spent for down in DIRECTIONS)
        paid = paid_at((one for one in spent if one is not None), self.plan(heading, pages).bytes, budget)
        return None if paid is None else max(due_at, paid)

    def plan(self, heading: Heading, pages: Pages) -> Plan:
        """A person has the whole probe made, whatever it costs."""
        (at, down), page, asked = heading, _page(pages, heading), heading in self._turns.asked
        bps, back_bps = self._turns.asked.get(heading) or page.probed_bps(), _page(pages, (at, not down)).probed_bps()
        paid = self._roads[at].budget_bytes_per_day is not None and not asked
        return plan(down, bps, paid, back_bps, bps is None and page.spent is None and not asked)

    def _last_over(self, air: Air, pages: Pages) -> Heading | None:
        if pages is not self._seen:
            spent = ((page.spent.at, heading) for heading, page in pages.items() if page.spent is not None)
            there = ((self._roads[heading[0]], heading) for _, heading in sorted(spent) if heading[0] in self._roads)
            self._last = {(road.site, road.air): heading for road, heading in there if road.air is not None}
            self._seen = pages
        return self._last.get(air)


def _again(heading: Heading, pages: Pages) -> float:
    at, down = heading
    page = _page(pages, heading)
    if page.spent is None:
        return float("-inf")
    back_bps = _page(pages, (at, not down)).probed_bps()
    return page.spent.at + period_s(page.spent.bytes, page.probed_bps(), back_bps)


def _page(pages: Pages, heading: Heading) -> Page:
    return pages.get(heading, NEW)
