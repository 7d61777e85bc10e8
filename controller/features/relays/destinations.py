# SPDX-License-Identifier: Apache-2.0
"""The choice of a relay for each destination of connections: distances, the choice, and the next measurements.

destination ─► measurements: gateway to it, gateway to each relay, each relay to it ─► distances ─► choice

A destination costs one measurement per relay. Destinations without connections cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from zlib import crc32

from controller.features.relays.agents import DistanceProber, Figures, RelayAgent, RelayClientAgent
from controller.model.config import Site
from controller.model.known import RelayOverride
from controller.model.relaying import Choosing, Fallback
from controller.policy.paths.leg_throughput import Leg, LegRouter
from controller.policy.paths.relays import (
    BUSY_FROM,
    OLD_S,
    Candidate,
    RelaySelection,
    believed,
    parallel,
    ping,
    predicted,
    traceroute,
)
from controller.protocol.orders import Choices, DistanceTarget, RelayChoice
from controller.protocol.reports import Distance, PendingDestination, RelayReport

# Distances between agents and places, as last measured

KEPT_S = OLD_S
RENEWED_AFTER_S = KEPT_S / 2  # if a connection asks for it
FAILED_KEPT_S = 60.0
MOST = 1 << 15


@dataclass(frozen=True, slots=True)
class KnownDistance:
    way: Distance
    at: float
    tried_at: float  # later than `at`: the last attempt failed

    def leg(self, who: str, now: float) -> Leg | None:
        """Return the leg, or None if the distance is unknown. Five packets are too few for a loss rate."""
        if not self.way.rtt_us or now - self.at > KEPT_S:
            return None
        routers = (
            LegRouter(
                router.address or f"{who}, {number} hops away", router.rtt_us / 1e3
            )  # silent routers equal no other
            for number, router in enumerate(self.way.routers, 1)
        )
        return Leg(self.way.rtt_us / 1e3, age_s=now - self.at, routers=tuple(routers))


class Distances:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], KnownDistance] = {}  # by agent and address; the newest last

    def tell(self, who: str, way: Distance, now: float) -> None:
        """Record a measurement. A failed one does not replace a recent distance."""
        known = self._known.pop((who, way.address), None)
        lasts = known is not None and known.way.rtt_us and now - known.at <= KEPT_S
        if known is not None and lasts and not way.rtt_us:
            self._known[who, way.address] = replace(known, tried_at=now)
        else:
            self._known[who, way.address] = KnownDistance(way, now, now)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def forget(self, who: str) -> None:
        self._known = {key: known for key, known in self._known.items() if key[0] != who}

    def get(self, who: str, address: str) -> KnownDistance | None:
        return self._known.get((who, address))

    def leg(self, who: str, address: str, now: float) -> Leg | None:
        known = self.get(who, address)
        return known.leg(who, now) if known else None

    def is_open(self, who: str, address: str, now: float) -> bool:
        """Return whether the distance is open: never measured, or known but too old."""
        known = self.get(who, address)
        return known is None or (known.way.rtt_us > 0 and now - known.at > KEPT_S)

    def is_due(self, who: str, address: str, now: float, routers: bool = False) -> bool:
        """Return whether a new measurement is due."""
        known = self.get(who, address)
        if known is None:
            return True
        if not known.way.rtt_us or known.tried_at > known.at:
            return now - known.tried_at > FAILED_KEPT_S
        return now - known.at > RENEWED_AFTER_S or (routers and not known.way.routers)


# The choice by the policy that gateway.yaml names

MOST_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class RelayQuery:
    """The inputs of a choice."""

    place: str
    direct: Leg
    candidates: tuple[Candidate, ...]  # connected ones first: among equals the first is chosen
    present: tuple[str, ...]  # the previous choice
    uplink_bps: float | None  # rate of one uplink to the site: each terminal's packets use one


def candidate(name: str, near: Leg, far: Leg, told: RelayReport | None) -> Candidate:
    """Return the candidate. `told`: the relay's last report about itself."""
    overhead_ms = told.overhead_us / 1e3 if told and told.overhead_us else None
    return Candidate(name, near, far, told.busy_percent / 100 if told else None, overhead_ms)


def _ping(asked: RelayQuery) -> RelaySelection:
    return ping(asked.direct, asked.candidates)


def _traceroute(asked: RelayQuery) -> RelaySelection:
    return traceroute(asked.direct, asked.candidates, _draw(asked))


def _predicted(asked: RelayQuery) -> RelaySelection:
    return predicted(asked.direct, asked.candidates, asked.present)


def _parallel(asked: RelayQuery) -> RelaySelection:
    return parallel(
        asked.direct, asked.candidates, most=MOST_TOGETHER, present=asked.present, uplink_bps=asked.uplink_bps
    )


def _draw(asked: RelayQuery) -> float:
    """Return the paper's random number. It depends on the place and the candidates, so a restart keeps it."""
    names = ",".join(sorted(each.name for each in asked.candidates))
    return crc32(f"{asked.place} {names}".encode()) / 2**32


# `nearest` is missing: the gateway takes the relay that it reaches fastest.
CHOOSE: Mapping[Choosing, Callable[[RelayQuery], RelaySelection]] = {
    Choosing.PREDICTED: _predicted,
    Choosing.PARALLEL: _parallel,
    Choosing.PING: _ping,
    Choosing.TRACEROUTE: _traceroute,
}


def by_all(asked: RelayQuery) -> Mapping[Choosing, RelaySelection]:
    """Return the choice of every method. The traceroute method needs routers on all legs."""
    walked = (asked.direct, *(each.far for each in asked.candidates))
    told = all(leg.routers for leg in walked)
    return {each: way(asked) for each, way in CHOOSE.items() if told or each is not Choosing.TRACEROUTE}


# The destinations of a site, and the choice for each

SETTLES_S = 5.0  # measurements are complete by then
REVIEWED_EVERY_S = 60.0  # the inputs have aged
MOST_REVIEWED = 32  # per run: each one costs a prediction per relay


@dataclass(slots=True)
class Destination:
    prefix: str
    address: str  # the first destination there; it represents the prefix
    port: int
    walked_for_at: float | None = None
    choice: RelaySelection | None = None  # None: not made yet, or expired
    present: tuple[str, ...] = ()  # the last choice, also if expired
    chosen_at: float = 0.0
    due: bool = field(default=False, repr=False)  # an input has changed

    def settles(self, now: float) -> bool:
        return self.walked_for_at is not None and now - self.walked_for_at < SETTLES_S


class Destinations:
    """The destinations of one site."""

    def __init__(self) -> None:
        self.by_prefix: dict[str, Destination] = {}  # the most recently used last

    def sought(self, one: PendingDestination) -> Destination:
        place = self.by_prefix.pop(one.prefix, None)
        self.by_prefix[one.prefix] = place or Destination(one.prefix, one.address, one.port, due=True)
        return self.by_prefix[one.prefix]

    def forget_oldest(self) -> None:
        del self.by_prefix[next(iter(self.by_prefix))]

    def touch(self, address: str | None = None) -> None:
        """Mark all destinations, or those of one address, for a new choice."""
        for place in self.by_prefix.values():
            if address in (None, place.address):
                place.due = True

    def to_choose(self, waits: Callable[[Destination], bool], now: float) -> Iterator[Destination]:
        found = 0
        for place in self.by_prefix.values():
            old = place.choice is not None and now - place.chosen_at > REVIEWED_EVERY_S
            if not (place.due or old) or (place.settles(now) and waits(place)):
                continue
            found += 1
            if found > MOST_REVIEWED:
                return
            yield place

    def together(self) -> frozenset[tuple[str, ...]]:
        """Return the groups of relays that were chosen together, also while a new choice is pending."""
        return frozenset(each.present for each in self.by_prefix.values() if len(each.present) > 1)

    def choices(self, usable: Container[str], may_go_direct: bool) -> tuple[RelayChoice, ...]:
        """Return the choices without unusable relays. A destination with no relay left has no choice for now."""
        found = (self._choice(place, usable, may_go_direct) for place in self.by_prefix.values())
        return tuple(sorted((each for each in found if each is not None), key=lambda one: one.prefix))

    def _choice(self, place: Destination, usable: Container[str], may_go_direct: bool) -> RelayChoice | None:
        if place.choice is None:
            return None
        left = tuple(name for name in place.choice.relays if name in usable)
        if not left and (place.choice.relays or not may_go_direct):
            return None
        return RelayChoice(place.prefix, left, together=len(left) > 1)


NONE = Choices()
MOST_PLACES = 256  # for all sites together
FELT_PERCENT = round(100 * BUSY_FROM)

UplinkBps = Callable[[str, float], float | None]  # rate of a site's fastest uplink towards the site; None: not known


@dataclass(frozen=True, slots=True)
class RelayContext:
    """A site, and the relays that its connections may use."""

    site: Site
    gateway: RelayClientAgent
    relays: Mapping[str, RelayOverride]  # reachable and not draining; connected ones first
    relay_agents: Mapping[str, RelayAgent]  # of connected relays
    figures: Mapping[str, Figures]

    @property
    def method(self) -> Choosing:
        assert self.site.relaying is not None
        return self.site.relaying.choose

    @property
    def may_go_direct(self) -> bool:
        assert self.site.relaying is not None
        return self.site.relaying.fallback is Fallback.DIRECT


class Seeking:
    def __init__(self, uplink_bps: UplinkBps) -> None:
        self._uplink_bps = uplink_bps
        self.ways = Distances()
        self._places: dict[str, Destinations] = {}  # by site
        self._moods: dict[str, tuple[tuple[str, bool, int, int], ...]] = {}  # by site, at the last choice

    def keep(self, sites: Iterable[str]) -> None:
        self._places = {site: self._places.get(site, Destinations()) for site in sites}

    def place(self, site: str, prefix: str) -> Destination | None:
        return self._places[site].by_prefix.get(prefix)

    def counted(self, site: str) -> tuple[int, int]:
        """Return the number of destinations, and of those with a choice."""
        places = self._places[site].by_prefix.values()
        return len(places), sum(each.choice is not None for each in places)

    def seek(self, scene: RelayContext, one: PendingDestination, now: float) -> None:
        """Measure for a destination, unless the last measurements for it have not settled."""
        place = self._sought(scene, one)
        if not place.settles(now):
            place.walked_for_at = now
            self._walk(self._ways_for(scene, place), now)

    def ask(self, scene: RelayContext, one: PendingDestination, now: float, anew: bool) -> list[tuple[str, str]]:
        """Measure for a destination, on request also known distances. Return the pairs of agent and address."""
        place = self._sought(scene, one)
        place.walked_for_at = now
        return self._walk(self._ways_for(scene, place), now, anew)

    def _sought(self, scene: RelayContext, one: PendingDestination) -> Destination:
        place = self._places[scene.site.name].sought(one)
        while sum(len(each.by_prefix) for each in self._places.values()) > MOST_PLACES:
            max(
                self._places.values(), key=lambda each: len(each.by_prefix)
            ).forget_oldest()  # from the site with the most
        return place

    def _ways_for(self, scene: RelayContext, place: Destination) -> Iterator[tuple[DistanceProber, DistanceTarget]]:
        there = DistanceTarget(place.address, place.port, scene.method is Choosing.TRACEROUTE)
        if scene.relays:
            yield scene.gateway.walker, there
        for name, each in scene.relays.items():
            yield scene.gateway.walker, DistanceTarget(str(each.address), each.port)
            if name in scene.relay_agents:
                yield scene.relay_agents[name].walker, there

    def _walk(
        self, ways: Iterable[tuple[DistanceProber, DistanceTarget]], now: float, anew: bool = False
    ) -> list[tuple[str, str]]:
        walked = []
        for walker, to in ways:
            if anew or self.ways.is_due(walker.name, to.address, now, to.routers):
                walker.want(to)
                if walker.is_on_its_way(to.address):
                    walked.append((walker.name, to.address))
        return walked

    def told(self, who: str, ways: Iterable[Distance], now: float) -> None:
        """Record distances. Those of a gateway concern its own site, those of a relay all sites."""
        for way in ways:
            self.ways.tell(who, way, now)
            if who in self._places:
                self._told_by_gateway(self._places[who], way.address)
            else:
                for places in self._places.values():
                    places.touch(way.address)

    def _told_by_gateway(self, places: Destinations, address: str) -> None:
        is_a_place = any(place.address == address for place in places.by_prefix.values())
        places.touch(address if is_a_place else None)

    def touch(self, site: str) -> None:
        self._places[site].touch()

    def choose(self, scene: RelayContext, now: float) -> None:
        way = CHOOSE.get(scene.method)
        if way is None:
            return
        if self._moods.get(scene.site.name) != (moods := _moods(scene)):
            self._moods[scene.site.name] = moods
            self.touch(scene.site.name)
        for place in list(self._places[scene.site.name].to_choose(lambda one: self._waits(scene, one), now)):
            place.due, place.chosen_at = False, now
            if place.choice is not None and self._is_compared(scene, place, now) and self._is_open(scene, place, now):
                self._walk(self._ways_for(scene, place), now)
                continue  # the choice stays until the distances are known
            question = self.question(scene, place, now)
            place.choice = way(question) if question is not None else None
            if place.choice is not None:
                place.present = place.choice.relays

    def question(self, scene: RelayContext, place: Destination, now: float) -> RelayQuery | None:
        """Return the inputs of a choice, or None if relays or the direct distance are missing."""
        name = scene.site.name
        direct = self.ways.leg(name, place.address, now)
        if direct is None or not scene.relays or self._is_open(scene, place, now):
            return None
        relaying = scene.site.relaying
        uplink_bps = (relaying and relaying.bandwidth_bps) or self._uplink_bps(name, now)
        candidates = (self._candidate(scene, each, place, direct, uplink_bps, now) for each in scene.relays)
        there = tuple(each for each in candidates if each is not None)
        return RelayQuery(place.prefix, replace(direct, bandwidth_bps=uplink_bps), there, place.present, uplink_bps)

    def _is_compared(self, scene: RelayContext, place: Destination, now: float) -> bool:
        """Return whether the direct distance is still known. Once it expires, unused destinations are not measured."""
        return self.ways.leg(scene.site.name, place.address, now) is not None

    def _is_open(self, scene: RelayContext, place: Destination, now: float) -> bool:
        """Return whether a distance must be measured before a choice.

        A relay must not lose because its distance is older, or because it was away when the destination came up. New
        connections cause measurements for destinations without a choice.
        """
        return any(
            walker.unable is None
            and not walker.is_on_its_way(to.address)
            and self.ways.is_open(walker.name, to.address, now)
            for walker, to in self._ways_for(scene, place)
        )

    def together(self, site: Site) -> frozenset[tuple[str, ...]]:
        """Return the groups of relays that connections of a site use in parallel."""
        places = self._places.get(site.name)
        parallel = site.relaying is not None and site.relaying.choose is Choosing.PARALLEL
        return places.together() if places is not None and parallel else frozenset()

    def choices(self, scene: RelayContext) -> Choices:
        if scene.method not in CHOOSE:
            return NONE
        return Choices(self._places[scene.site.name].choices(scene.relays, scene.may_go_direct))

    def _candidate(
        self, scene: RelayContext, name: str, place: Destination, direct: Leg, uplink_bps: float | None, now: float
    ) -> Candidate | None:
        near = self.ways.leg(scene.site.name, str(scene.relays[name].address), now)
        far = self.ways.leg(name, place.address, now)
        if near is None or far is None:
            return None
        figures = scene.figures.get(name)
        told = figures.told if figures else None
        return candidate(name, replace(near, bandwidth_bps=uplink_bps), believed(direct, near, far), told)

    def _waits(self, scene: RelayContext, place: Destination) -> bool:
        """Return whether to wait for measurements, or for relays that have not reported since a restart."""
        if any(name not in scene.figures for name in scene.relays):
            return True
        gateway = scene.gateway.walker
        near = (str(each.address) for each in scene.relays.values())
        far = (each.walker for each in scene.relay_agents.values())
        return any(gateway.is_on_its_way(each) for each in (place.address, *near)) or any(
            walker.is_on_its_way(place.address) for walker in far
        )


def _moods(scene: RelayContext) -> tuple[tuple[str, bool, int, int], ...]:
    """Return the connected relays and their reports in coarse steps, as exact figures change with each report."""
    told = ((name, each.told) for name, each in scene.figures.items() if name in scene.relays)
    return tuple(
        (name, name in scene.relay_agents, max(one.busy_percent, FELT_PERCENT) // 5, one.overhead_us // 1000)
        for name, one in told
    )
