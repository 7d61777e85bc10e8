# SPDX-License-Identifier: Apache-2.0
"""The measurement of paths, by continuous small packets and occasional probes. Other features decide.

configuration ─► paths ─► meetings of their ends' agents ─► Answer, then Health ─► reports ─► health
                                                       └─► turns ─► Probe ─► Probed ─► Estimate ─► Estimated ─► book
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import repeat

from controller.agents.agent import Agent
from controller.agents.order_kinds import HEALTH_PROBES, PROBE_ANSWERS
from controller.agents.registry import AgentRegistry
from controller.features.probing import path_record, readout
from controller.features.probing.meetings import Meetings, cannot_probe
from controller.features.probing.path_record import DeliveryRates, Estimate, Estimated, PathEstimate, WayOf
from controller.features.probing.probed_paths import At, End, ProbedPath, SentProbe, Unmeasured, paths, wanted
from controller.features.probing.schedule import DIRECTIONS, NEW, PathDirection, Timetable, Turn, Turns
from controller.features.probing.view import PathView
from controller.model.config import Config
from controller.policy.bandwidth.rates import FusedRate, MeasuredRate, rate_text
from controller.protocol.orders import Direct, Tickets
from controller.protocol.reports import (
    AgentClosed,
    AgentEvent,
    PathHealth,
    ProbeReport,
    Reported,
    Resulted,
    Role,
)
from controller.protocol.requests import Impossible, OverrideResult

log = logging.getLogger(__name__)


class ProbingManager:
    def __init__(
        self,
        config: Config,
        agents: AgentRegistry,
        tickets: Tickets,
        stored: Mapping[PathDirection, PathEstimate],
        way_of: WayOf,
    ) -> None:
        """`stored` holds the estimates of the last run, with times of this run's clock."""
        self._way_of = way_of
        self._agents, self._tickets = agents, tickets
        self._meetings = Meetings(tickets)
        self._turns = Turns()
        self._estimating: set[PathDirection] = set()
        self._timetable = Timetable(self._turns)
        self._delivering = DeliveryRates()
        self._delivered: dict[PathDirection, MeasuredRate] = {}  # the highest recent rate of a flow
        self.pages: Mapping[PathDirection, PathEstimate] = stored  # immutable; each change replaces the mapping
        self._paths: dict[At, ProbedPath] = {}
        self.watched: frozenset[At] = frozenset()  # paths whose loss another feature needs soon
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        found, before = list(paths(config)), self._paths
        self._paths = {path.at: path for path in found if isinstance(path, ProbedPath)}
        self._paths_of: dict[End, list[ProbedPath]] = {}  # by either end
        for path in self._paths.values():
            for end in path.ends:
                self._paths_of.setdefault(end, []).append(path)
        self._unmeasured = tuple(path for path in found if isinstance(path, Unmeasured))
        self._meetings.keep(self._paths)
        headings = {(at, down) for at in self._paths for down in DIRECTIONS}
        self._turns.keep(headings)
        others = {at for at, path in before.items() if at in self._paths and self._paths[at].route != path.route}
        self.pages = {
            heading: path_record.of_another_way(page) if heading[0] in others else page
            for heading, page in self.pages.items()
            if heading in headings
        }
        self._timetable.keep(self._paths)
        self._delivered = {heading: one for heading, one in self._delivered.items() if heading in headings}

    # Events of agents

    def on_event(self, event: AgentEvent, agent: Agent, now: float) -> Iterator[Direct | Estimate]:
        probes = agent.role is not Role.RELAY
        match event:
            case AgentClosed():
                self._delivering.closed(event.session)
                for turn in self._turns.gone(event.session):
                    self._failed(turn, f"the agent {turn.path.near} disconnected during the probe")
            case Resulted() if probes:
                self._meetings.acknowledged(agent)
                self._begun(event, now)
            case Reported():
                self._reported(agent, event, now)
            case ProbeReport():
                yield from self._probed(event, now)
        if probes:
            yield from self._tell((agent.role, agent.name), now, isinstance(event, Reported))

    def _reported(self, agent: Agent, event: Reported, now: float) -> None:
        self._look(agent, now)
        if self._paths and agent.role is not Role.GATEWAY:
            self._deliver(event, agent, now)

    def _begun(self, event: Resulted, now: float) -> None:
        turn = None if event.done else self._turns.end(event.directive)
        if turn is not None:
            self._timetable.refused(turn.heading, now)
            self._write(turn.heading, replace(self._page(turn.heading), spent=turn.before))
            self._failed(turn, f"agent {turn.path.near}: {event.answer}")

    def _probed(self, event: ProbeReport, now: float) -> Iterator[Estimate]:
        turn = self._turns.end(event.directive)
        if turn is None or turn.heading not in self._headings():
            return
        if self._paths[turn.path.at].route != turn.path.route:
            self._failed(turn, "gateway.yaml changed the path during the probe")
            return
        if not event.packets:
            self._failed(turn, event.reason or "no packet of the probe was sent")
            return
        self._estimating.add(turn.heading)
        (site, uplink), down = turn.heading
        yield Estimate(site, uplink, down, event, self._page(turn.heading).alpha, turn.link_bps, now)

    def estimated(self, event: Estimated, now: float) -> None:
        """Record an estimate. `now` is later than the time of the probe."""
        heading: PathDirection = ((event.of.site, event.of.uplink), event.of.down)
        self._estimating.discard(heading)
        if heading not in self._headings():
            return
        self._write(heading, path_record.written(self._page(heading), event))
        figure = self._page(heading).figure(self._delivered.get(heading), now, self._paths[heading[0]].kept_s)
        found = rate_text(figure.bps) if isinstance(figure, FusedRate) else f"not known: {figure.reason}"
        log.info("%s: %s %s: %s", event.of.site, event.of.uplink, readout.named(event.of.down), found)

    def _failed(self, turn: Turn, reason: str) -> None:
        page, direction = self._page(turn.heading), readout.named(turn.down)
        if reason != page.error:
            log.info("%s: %s %s was not measured: %s", turn.path.site, turn.path.uplink, direction, reason)
        self._write(turn.heading, path_record.failed(page, reason))

    def _look(self, agent: Agent, now: float) -> None:
        end = (agent.role, agent.name)
        for path in (each for each in self._paths_of.get(end, ()) if each.near_end == end):
            health = self._health(path)
            if health is not None and health.answers:
                self._timetable.answers(path, now)
            else:
                self._timetable.silent(path)

    def _deliver(self, event: Reported, agent: Agent, now: float) -> None:
        speaker = self._agents.speaker(event.session)
        if speaker is None:
            return
        for one in self._delivering.on_report(agent.flows, event, *speaker, self._way_of, now):
            path = self._path(one.site, one.uplink)
            if path is not None:
                heading = (path.at, one.sent != (path.near == one.site))
                self._delivered[heading] = path_record.most(self._delivered.get(heading), one.bps, now)

    # Orders

    def tend(self, now: float) -> Iterator[Direct]:
        for agent in self._agents.of_roles(Role.GATEWAY, Role.TERMINAL):
            yield from self._tell((agent.role, agent.name), now, alone=True)
        for heading in tuple(self._turns.requested):
            reason = self.why_not(self._paths[heading[0]])
            if reason is not None:
                del self._turns.requested[heading]
                self._write(heading, path_record.failed(self._page(heading), reason))
        for turn in self._turns.late(now):
            self._failed(turn, f"the agent {turn.path.near} has not reported a result")
        yield from self._probe(now)

    def _tell(self, end: End, now: float, alone: bool) -> Iterator[Direct]:
        """Send due orders to an agent and, unless `alone`, to the agents at the other ends of its paths."""
        for path in self._paths_of.get(end, ()):
            near, far = self._agents.at(*path.near_end), self._agents.at(*path.far_end)
            if near is None or far is None or cannot_probe(near) or cannot_probe(far):
                continue
            if self._meetings.meet(path, near, far, self._is_watched(path)):
                self._timetable.silent(path)
        others = () if alone else (each for path in self._paths_of.get(end, ()) for each in path.ends)
        for each in sorted({end, *others}):
            agent = self._agents.at(*each)
            if agent is not None:
                yield from self._meetings.orders(agent, self._paths_of.get(each, ()), now)

    def _probe(self, now: float) -> Iterator[Direct]:
        for at, down in self._timetable.due(self._headings(), self.pages, now):
            path = self._paths[at]
            near, met = self._agents.at(*path.near_end), self._meetings.of(path)
            if near is not None and met is not None and met.near == near.session and self._turns.is_free(path):
                planned = self._timetable.plan((at, down), self.pages)
                directive = self._tickets.draw()
                page = self._page((at, down))
                self._turns.begin(path, down, near.session, planned.lasts_s, page.spent, directive, now)
                self._write((at, down), replace(page, spent=SentProbe(now, planned.bytes)))
                yield Direct(near.session, directive, planned.order(path, down, met.number))

    # Requests of people

    def wish(self, site: str | None, uplink: str, link_bps: float | None) -> OverrideResult:
        """Probe paths now, regardless of cost. Raise Impossible if one cannot be measured."""
        meant = wanted((*self._paths.values(), *self._unmeasured), site, uplink)
        for path in meant:
            reason = self.why_not(path)
            if reason is not None:
                raise Impossible(f"{path.uplink} of {path.site} cannot be measured: {reason}")
        for path in meant:
            for down in DIRECTIONS:
                self._turns.ask((path.at, down), link_bps)
        return OverrideResult(
            tuple(f"{path.uplink} of {path.site} is being measured in both directions" for path in meant), True, 0
        )

    # Views

    def health(self, site: str, uplink: str) -> PathHealth | None:
        """Return the last report of a connected agent. `site` is either end."""
        path = self._path(site, uplink)
        return self._health(path) if path is not None else None

    def _health(self, path: ProbedPath) -> PathHealth | None:
        agent = self._agents.at(*path.near_end)
        found = agent.report.health if agent is not None and agent.report is not None else ()
        return next((health for health in found if health.name == path.uplink), None)

    def over_air(self, site: str, access_point: str, now: float) -> FusedRate | None:
        """Return the highest recent rate by trains. Trains during other traffic on the shared air find less."""
        paths = (path for path in self._paths_of.get((Role.GATEWAY, site), ()) if path.access_point == access_point)
        pages = (self._page((path.at, down)) for path in paths for down in DIRECTIONS)
        return max(
            filter(None, (path_record.by_trains(page, now) for page in pages)), key=lambda one: one.bps, default=None
        )

    def uplink_bps(self, site: str, now: float) -> float | None:
        """Return the rate of the fastest uplink towards the site, or None.

        Delivered rates are no upper bound: flows may be slow for other reasons.
        """
        paths = (path for path in self._paths_of.get((Role.GATEWAY, site), ()) if path.access_point is None)
        headings = ((path, (path.at, path.near == site)) for path in paths)
        figures = (
            self._page(heading).figure(self._delivered.get(heading), now, path.kept_s) for path, heading in headings
        )
        bounded = (figure for figure in figures if isinstance(figure, FusedRate) and math.isfinite(figure.most_bps))
        return max((figure.bps for figure in bounded), default=None)

    def view(self, now: float) -> tuple[PathView, ...]:
        return (*map(self._path_view, self._paths.values(), repeat(now)), *map(readout.unmeasured, self._unmeasured))

    def _path_view(self, path: ProbedPath, now: float) -> PathView:
        directions = (
            readout.direction(
                down,
                self._page((path.at, down)),
                self._delivered.get((path.at, down)),
                path.kept_s,
                self._is_running((path.at, down)),
                self._timetable.due_at((path.at, down), self.pages, now),
                now,
            )
            for down in DIRECTIONS
        )
        return readout.path(path, self.why_not(path), self.health(path.site, path.uplink), tuple(directions))

    def _is_watched(self, path: ProbedPath) -> bool:
        return path.at in self.watched and path.budget_bytes_per_day is None and path.access_point is None

    def why_not(self, path: ProbedPath) -> str | None:
        """Return why the path is not measured, or None."""
        near, far = self._agents.at(*path.near_end), self._agents.at(*path.far_end)
        if near is None or far is None:
            role, name = path.far_end if near else path.near_end
            return f"no {role} agent enrolled as {name} is connected"
        answering = far.report.answering if far.report is not None else None
        refusal = far.slot(PROBE_ANSWERS).refused or (answering.reason if answering is not None else "")
        reason = cannot_probe(near) or cannot_probe(far) or refusal
        if reason:
            return reason
        if self._meetings.of(path) is None:
            return f"the agent {path.far} has not confirmed yet that it answers"
        health = self._health(path)
        if health is None:
            return near.slot(HEALTH_PROBES).refused or f"the agent {path.near} has not reported this path yet"
        return health.reason or None

    def _path(self, site: str, uplink: str) -> ProbedPath | None:
        """Return the path of an uplink, or None. `site` is either end."""
        return next((path for path in self._paths_of.get((Role.GATEWAY, site), ()) if path.uplink == uplink), None)

    def _is_running(self, heading: PathDirection) -> bool:
        return heading in self._turns.requested or self._turns.runs(heading) or heading in self._estimating

    def _headings(self) -> list[PathDirection]:
        return [(at, down) for at in self._paths for down in DIRECTIONS]

    def _page(self, heading: PathDirection) -> PathEstimate:
        return self.pages.get(heading, NEW)

    def _write(self, heading: PathDirection, page: PathEstimate) -> None:
        if heading[0] in self._paths:
            self.pages = {**self.pages, heading: page}
