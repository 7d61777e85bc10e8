"""The roads between sites, measured: by small packets all the time, and by probes now and then. What is found is told,
kept, and evidence for others; nothing is decided here.

    configuration ─► roads ─► meetings of their ends' agents ─► Answer, then Health ─► reports ─► health
                                                           └─► turns ─► Probe ─► Probed ─► Estimate ─► Estimated ─► book
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import repeat

from controller.measures import PathHealth, Probed
from controller.measuring import book, telling
from controller.measuring.book import Page
from controller.measuring.delivering import Delivering, WayOf
from controller.measuring.estimates import Estimate, Estimated
from controller.measuring.host import Host
from controller.measuring.meetings import Meetings
from controller.measuring.pace import AGAIN_AFTER_S, FIRST_AFTER_S, Sent, paid_at, period_s
from controller.measuring.plan import Plan, plan
from controller.measuring.roads import At, Road, Unmeasured, roads, wanted
from controller.measuring.turns import Heading, Turn, Turns
from controller.measuring.views import RoadView
from controller.model import Config
from controller.orders import Direct
from controller.policy.fusing import Figure, Measured
from controller.policy.rates import said
from controller.policy.ways import Home
from controller.reports import AgentClosed, AgentEvent, AgentOpened, Reported, Resulted, Role
from controller.tickets import Tickets
from controller.wishes import Answer, Impossible

log = logging.getLogger(__name__)

NEW = Page()
DIRECTIONS = (False, True)  # down or not

Speaker = Callable[[int], tuple[bool, Mapping[str, Home]] | None]
"""Whether this session's agent stands at the terminals' end, and the homes of which it tells."""


class Measuring:
    def __init__(
        self, config: Config, tickets: Tickets, kept: Mapping[Heading, Page], speaker: Speaker, way_of: WayOf
    ) -> None:
        """`kept` is what was known when the controller ended, its times by this one's clock. `speaker` tells of whose
        connections a session reports, `way_of` by which uplinks a terminal's packets go."""
        self._speaker, self._way_of = speaker, way_of
        self._tickets = tickets
        self._here: dict[int, Host] = {}  # by session
        self._at: dict[str, Host] = {}  # by site: who came last
        self._meetings = Meetings(tickets)
        self._turns = Turns()
        self._estimating: set[Heading] = set()
        self._answer_since: dict[At, float] = {}  # roads by which the far end is seen to answer
        self._not_before: dict[Heading, float] = {}  # where a probe could not begin
        self._delivering = Delivering()
        self._delivered: dict[Heading, Measured] = {}  # the most that flows got of late
        self.pages: Mapping[Heading, Page] = kept  # a new one whenever anything in it changes
        self._roads: dict[At, Road] = {}
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        found, before = list(roads(config)), self._roads
        self._roads = {road.at: road for road in found if isinstance(road, Road)}
        self._roads_of: dict[str, list[Road]] = {}  # by either end
        for road in self._roads.values():
            for end in road.ends:
                self._roads_of.setdefault(end, []).append(road)
        self._unmeasured = tuple(road for road in found if isinstance(road, Unmeasured))
        self._meetings.keep(self._roads)
        headings = {(at, down) for at in self._roads for down in DIRECTIONS}
        self._turns.keep(headings)
        others = {at for at, road in before.items() if at in self._roads and self._roads[at].way != road.way}
        self.pages = {
            heading: book.of_another_way(page) if heading[0] in others else page
            for heading, page in self.pages.items()
            if heading in headings
        }
        self._answer_since = {at: since for at, since in self._answer_since.items() if at in self._roads}
        self._delivered = {heading: one for heading, one in self._delivered.items() if heading in headings}

    # What agents say

    def hear(self, event: AgentEvent, now: float) -> Iterator[Direct | Estimate]:
        here = self._here.get(event.session)
        match event:
            case AgentOpened(role=Role.GATEWAY):
                self._here[event.session] = self._at[event.name] = Host(event)
            case AgentClosed():
                self._here.pop(event.session, None)
                self._at = {host.name: host for host in self._here.values()}
                self._delivering.closed(event.session)
                for turn in self._turns.gone(event.session):
                    self._failed(turn, f"the agent {turn.road.near} went away while it probed")
            case Resulted() if here:
                self._meetings.answered(here.resulted(event))
                self._begun(event, now)
            case Reported() if here:
                here.reported(event)
                self._look(here, now)
            case Reported() if self._roads:
                self._deliver(event, now)
            case Probed():
                yield from self._probed(event, now)
        who = here or self._here.get(event.session)
        if who is not None:
            yield from self._tell(who.name, now)

    def _begun(self, event: Resulted, now: float) -> None:
        turn = None if event.done else self._turns.end(event.directive)
        if turn is not None:
            self._not_before[turn.heading] = now + AGAIN_AFTER_S
            self._write(turn.heading, replace(self._page(turn.heading), spent=turn.before))
            self._failed(turn, f"agent {turn.road.near}: {event.said}")

    def _probed(self, event: Probed, now: float) -> Iterator[Estimate]:
        turn = self._turns.end(event.directive)
        if turn is None or turn.heading not in self._headings():
            return
        if self._roads[turn.road.at].way != turn.road.way:
            self._failed(turn, "gateway.yaml has another way for it since that was begun")
            return
        if not event.packets:
            self._failed(turn, event.because or "no packet of it was sent")
            return
        self._estimating.add(turn.heading)
        (site, uplink), down = turn.heading
        yield Estimate(site, uplink, down, event, self._page(turn.heading).alpha, turn.link_bps, now)

    def estimated(self, event: Estimated, now: float) -> None:
        """`now` is later than what was estimated."""
        heading: Heading = ((event.of.site, event.of.uplink), event.of.down)
        self._estimating.discard(heading)
        if heading not in self._headings():
            return
        self._write(heading, book.written(self._page(heading), event))
        figure = self._page(heading).figure(self._delivered.get(heading), now)
        found = said(figure.bps) if isinstance(figure, Figure) else f"not known: {figure.because}"
        log.info("%s: %s %s: %s", event.of.site, event.of.uplink, telling.named(event.of.down), found)

    def _failed(self, turn: Turn, because: str) -> None:
        page, direction = self._page(turn.heading), telling.named(turn.down)
        if because != page.error:
            log.info("%s: %s %s was not measured: %s", turn.road.site, turn.road.uplink, direction, because)
        self._write(turn.heading, book.failed(page, because))

    def _look(self, who: Host, now: float) -> None:
        for road in (each for each in self._roads_of.get(who.name, ()) if each.near == who.name):
            path = who.health.get(road.uplink)
            if path is not None and path.answers:
                self._answer_since.setdefault(road.at, now)
            else:
                self._answer_since.pop(road.at, None)

    def _deliver(self, event: Reported, now: float) -> None:
        speaker = self._speaker(event.session)
        for one in self._delivering.told(event, *speaker, self._way_of, now) if speaker is not None else ():
            road = next((road for road in self._roads_of.get(one.site, ()) if road.uplink == one.uplink), None)
            if road is not None:
                heading = (road.at, one.sent != (road.near == one.site))
                self._delivered[heading] = book.most(self._delivered.get(heading), one.bps, now)

    # What they are told

    def tend(self, now: float) -> Iterator[Direct]:
        """What all of them are to do, and whose turn it is."""
        for name in tuple(self._at):
            yield from self._tell(name, now)
        for heading in tuple(self._turns.asked):
            because = self.why_not(self._roads[heading[0]])
            if because is not None:
                del self._turns.asked[heading]
                self._write(heading, book.failed(self._page(heading), because))
        for turn in self._turns.late(now):
            self._failed(turn, f"the agent {turn.road.near} has not told what came of it")
        yield from self._probe(now)

    def _tell(self, site: str, now: float) -> Iterator[Direct]:
        """A site's agent, and those at the other ends of its roads."""
        roads = self._roads_of.get(site, ())
        for road in roads:
            near, far = self._at.get(road.near), self._at.get(road.far)
            if near is None or far is None or near.unable or far.unable:
                continue
            if self._meetings.meet(road, near, far):
                self._answer_since.pop(road.at, None)
        for name in sorted({site, *(end for road in roads for end in road.ends)} & self._at.keys()):
            host = self._at[name]
            answer, health = self._meetings.answer(host, roads), self._meetings.health(host, roads)
            yield from host.tell(answer, health, self._tickets, now)

    def _probe(self, now: float) -> Iterator[Direct]:
        due = ((self._due_at(heading, now), heading) for heading in self._headings())
        those = [(heading not in self._turns.asked, at, heading) for at, heading in due if at is not None and at <= now]
        for _, _, (at, down) in sorted(those):
            road = self._roads[at]
            near, met = self._at.get(road.near), self._meetings.of(road)
            if near is not None and met is not None and met.near == near.session and self._turns.is_free(road):
                planned = self._plan((at, down))
                directive = self._tickets.draw()
                page = self._page((at, down))
                self._turns.begin(road, down, near.session, planned.lasts_s, page.spent, directive, now)
                self._write((at, down), replace(page, spent=Sent(now, planned.bytes)))
                yield Direct(near.session, directive, planned.order(road, down, met.number))

    def _due_at(self, heading: Heading, now: float) -> float | None:
        """None: nothing says when."""
        at, page = heading[0], self._page(heading)
        if heading in self._turns.asked or at not in self._answer_since:
            return now if heading in self._turns.asked else None
        due_at = max(self._answer_since[at] + FIRST_AFTER_S, self._not_before.get(heading, now))
        if page.spent is not None:
            back_bps = self._page((at, not heading[1])).probed_bps()
            due_at = max(due_at, page.spent.at + period_s(page.spent.bytes, page.probed_bps(), back_bps))
        budget = self._roads[at].budget_bytes_per_day
        if budget is None:
            return due_at
        spent = (self._page((at, down)).spent for down in DIRECTIONS)
        paid = paid_at((one for one in spent if one is not None), self._plan(heading).bytes, budget)
        return None if paid is None else max(due_at, paid)

    def _plan(self, heading: Heading) -> Plan:
        """A person has the whole probe made, whatever it costs."""
        (at, down), page, asked = heading, self._page(heading), heading in self._turns.asked
        bps, back_bps = self._turns.asked.get(heading) or page.probed_bps(), self._page((at, not down)).probed_bps()
        paid = self._roads[at].budget_bytes_per_day is not None and not asked
        return plan(down, bps, paid, back_bps, bps is None and page.spent is None and not asked)

    # What people wish

    def wish(self, site: str | None, uplink: str, link_bps: float | None) -> Answer:
        """Both directions of these at once, whatever they have cost today; or Impossible."""
        meant = wanted((*self._roads.values(), *self._unmeasured), site, uplink)
        for road in meant:
            because = self.why_not(road)
            if because is not None:
                raise Impossible(f"{road.uplink} of {road.site} cannot be measured: {because}")
        for road in meant:
            for down in DIRECTIONS:
                self._turns.ask((road.at, down), link_bps)
        return Answer(tuple(f"{road.uplink} of {road.site} is measured, both ways" for road in meant), True, 0)

    # What is known

    def health(self, site: str, uplink: str) -> PathHealth | None:
        """As it was told last, by who is in session. `site` is either end."""
        near = next((road.near for road in self._roads_of.get(site, ()) if road.uplink == uplink), None)
        host = self._at.get(near) if near is not None else None
        return host.health.get(uplink) if host is not None else None

    def told(self, now: float) -> tuple[RoadView, ...]:
        return (*map(self._told, self._roads.values(), repeat(now)), *map(telling.unmeasured, self._unmeasured))

    def _told(self, road: Road, now: float) -> RoadView:
        directions = (
            telling.direction(
                down,
                self._page((road.at, down)),
                self._delivered.get((road.at, down)),
                self._is_running((road.at, down)),
                self._due_at((road.at, down), now),
                now,
            )
            for down in DIRECTIONS
        )
        return telling.road(road, self.why_not(road), self.health(road.site, road.uplink), tuple(directions))

    def why_not(self, road: Road) -> str | None:
        """None: it is measured."""
        near, far = self._at.get(road.near), self._at.get(road.far)
        if near is None or far is None:
            return f"no agent of role gateway that was enrolled as {road.far if near else road.near} is connected"
        said = far.answering.because if far.answering is not None else ""
        because = near.unable or far.unable or far.does_not_answer or said
        if because:
            return because
        if self._meetings.of(road) is None:
            return f"the agent {road.far} has not said yet that it answers"
        path = near.health.get(road.uplink)
        if path is None:
            return near.does_not_send or f"the agent {road.near} has not told of it yet"
        return path.because or None

    def _is_running(self, heading: Heading) -> bool:
        return heading in self._turns.asked or self._turns.runs(heading) or heading in self._estimating

    def _headings(self) -> list[Heading]:
        return [(at, down) for at in self._roads for down in DIRECTIONS]

    def _page(self, heading: Heading) -> Page:
        return self.pages.get(heading, NEW)

    def _write(self, heading: Heading, page: Page) -> None:
        if heading[0] in self._roads:
            self.pages = {**self.pages, heading: page}
