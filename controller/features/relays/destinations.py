# SPDX-License-Identifier: Apache-2.0
"""The choice of a relay for each destination of connections: distances, the choice, and the next measurements.

destination ─► measurements: gateway to it, gateway to each relay, each relay to it ─► distances ─► choice

A destination costs one measurement per relay. Destinations without connections cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from zlib import crc32

from controller.features.relays.distances import DistanceProber
from controller.features.relays.reports import Figures
from controller.model.config import Site
from controller.model.overrides import RelayOverride
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

KEPT_S = OLD_S
RENEWED_AFTER_S = KEPT_S / 2  # age from which the next connection causes a new measurement
FAILED_KEPT_S = 60.0
MOST = 1 << 15


@dataclass(frozen=True, slots=True)
class KnownDistance:
    way: Distance
    at: float
    tried_at: float  # later than `at`: the last attempt failed

    def leg(self, agent: str, now: float) -> Leg | None:
        """Return no loss rate: five packets are too few."""
        if not self.way.rtt_us or now - self.at > KEPT_S:
            return None
        routers = (
            LegRouter(
                router.address or f"{agent}, {number} hops away", router.rtt_us / 1e3
            )  # unique for a silent router, so that it equals no other
            for number, router in enumerate(self.way.routers, 1)
        )
        return Leg(self.way.rtt_us / 1e3, age_s=now - self.at, routers=tuple(routers))


class Distances:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], KnownDistance] = {}  # by agent and address; the newest last

    def tell(self, agent: str, way: Distance, now: float) -> None:
        """Record a measurement. A failed one does not replace a recent distance."""
        known = self._known.pop((agent, way.address), None)
        lasts = known is not None and known.way.rtt_us and now - known.at <= KEPT_S
        if known is not None and lasts and not way.rtt_us:
            self._known[agent, way.address] = replace(known, tried_at=now)
        else:
            self._known[agent, way.address] = KnownDistance(way, now, now)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def forget(self, agent: str) -> None:
        self._known = {key: known for key, known in self._known.items() if key[0] != agent}

    def get(self, agent: str, address: str) -> KnownDistance | None:
        return self._known.get((agent, address))

    def leg(self, agent: str, address: str, now: float) -> Leg | None:
        known = self.get(agent, address)
        return known.leg(agent, now) if known else None

    def is_open(self, agent: str, address: str, now: float) -> bool:
        known = self.get(agent, address)
        return known is None or (known.way.rtt_us > 0 and now - known.at > KEPT_S)

    def is_due(self, agent: str, address: str, now: float, routers: bool = False) -> bool:
        known = self.get(agent, address)
        if known is None:
            return True
        if not known.way.rtt_us or known.tried_at > known.at:
            return now - known.tried_at > FAILED_KEPT_S
        return now - known.at > RENEWED_AFTER_S or (routers and not known.way.routers)


MOST_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class RelayQuery:
    """The inputs of a choice."""

    destination: str
    direct: Leg
    candidates: tuple[Candidate, ...]  # connected ones first: among equals the first is chosen
    present: tuple[str, ...]  # the previous choice
    uplink_bps: float | None  # rate of one uplink to the site: each terminal's packets use one


def candidate(name: str, near: Leg, far: Leg, report: RelayReport | None) -> Candidate:
    overhead_ms = report.overhead_us / 1e3 if report and report.overhead_us else None
    return Candidate(name, near, far, report.busy_percent / 100 if report else None, overhead_ms)


def _ping(query: RelayQuery) -> RelaySelection:
    return ping(query.direct, query.candidates)


def _traceroute(query: RelayQuery) -> RelaySelection:
    return traceroute(query.direct, query.candidates, _draw(query))


def _predicted(query: RelayQuery) -> RelaySelection:
    return predicted(query.direct, query.candidates, query.present)


def _parallel(query: RelayQuery) -> RelaySelection:
    return parallel(
        query.direct, query.candidates, most=MOST_TOGETHER, present=query.present, uplink_bps=query.uplink_bps
    )


def _draw(query: RelayQuery) -> float:
    """Return the paper's random number, derived from destination and candidates: a restart draws the same."""
    names = ",".join(sorted(each.name for each in query.candidates))
    return crc32(f"{query.destination} {names}".encode()) / 2**32


# `nearest` is missing: the gateway takes the relay that it reaches fastest.
CHOOSE: Mapping[Choosing, Callable[[RelayQuery], RelaySelection]] = {
    Choosing.PREDICTED: _predicted,
    Choosing.PARALLEL: _parallel,
    Choosing.PING: _ping,
    Choosing.TRACEROUTE: _traceroute,
}


def by_all(query: RelayQuery) -> Mapping[Choosing, RelaySelection]:
    """Return the choice of every method. The traceroute method needs routers on all legs."""
    legs = (query.direct, *(each.far for each in query.candidates))
    known = all(leg.routers for leg in legs)
    return {each: way(query) for each, way in CHOOSE.items() if known or each is not Choosing.TRACEROUTE}


SETTLES_S = 5.0  # from the start of measurements until all are complete
REVIEWED_EVERY_S = 60.0  # age of a choice from which it is made again
MOST_REVIEWED = 32  # per run: each one costs a prediction per relay


@dataclass(slots=True)
class Destination:
    prefix: str
    address: str  # the first requested address of the prefix; measurements use it
    port: int
    measuring_since: float | None = None
    choice: RelaySelection | None = None  # None: not made yet, or expired
    present: tuple[str, ...] = ()  # the last choice, also if expired
    chosen_at: float = 0.0
    due: bool = field(default=False, repr=False)  # an input has changed

    def settles(self, now: float) -> bool:
        return self.measuring_since is not None and now - self.measuring_since < SETTLES_S


class Destinations:
    """The destinations of one site."""

    def __init__(self) -> None:
        self.by_prefix: dict[str, Destination] = {}  # the most recently used last

    def get_or_add(self, one: PendingDestination) -> Destination:
        destination = self.by_prefix.pop(one.prefix, None)
        self.by_prefix[one.prefix] = destination or Destination(one.prefix, one.address, one.port, due=True)
        return self.by_prefix[one.prefix]

    def forget_oldest(self) -> None:
        del self.by_prefix[next(iter(self.by_prefix))]

    def touch(self, address: str | None = None) -> None:
        for destination in self.by_prefix.values():
            if address in (None, destination.address):
                destination.due = True

    def to_choose(self, waits: Callable[[Destination], bool], now: float) -> Iterator[Destination]:
        found = 0
        for destination in self.by_prefix.values():
            old = destination.choice is not None and now - destination.chosen_at > REVIEWED_EVERY_S
            if not (destination.due or old) or (destination.settles(now) and waits(destination)):
                continue
            found += 1
            if found > MOST_REVIEWED:
                return
            yield destination

    def together(self) -> frozenset[tuple[str, ...]]:
        """Return relays that were chosen together, also while a choice is pending."""
        return frozenset(each.present for each in self.by_prefix.values() if len(each.present) > 1)

    def choices(self, usable: Container[str], may_go_direct: bool) -> tuple[RelayChoice, ...]:
        """Return the choices without unusable relays. A destination with no relay left has no choice for now."""
        found = (self._choice(destination, usable, may_go_direct) for destination in self.by_prefix.values())
        return tuple(sorted((each for each in found if each is not None), key=lambda one: one.prefix))

    def _choice(self, destination: Destination, usable: Container[str], may_go_direct: bool) -> RelayChoice | None:
        if destination.choice is None:
            return None
        left = tuple(name for name in destination.choice.relays if name in usable)
        if not left and (destination.choice.relays or not may_go_direct):
            return None
        return RelayChoice(destination.prefix, left, together=len(left) > 1)


NO_CHOICES = Choices()
MOST_DESTINATIONS = 256  # for all sites together
BUSY_FROM_PERCENT = round(100 * BUSY_FROM)  # a lower load changes no choice

UplinkBps = Callable[[str, float], float | None]  # fastest uplink towards the site; None: not known


@dataclass(frozen=True, slots=True)
class RelayContext:
    """A site, and the relays that its connections may use."""

    site: Site
    gateway: DistanceProber
    relays: Mapping[str, RelayOverride]  # reachable and not draining; connected ones first
    relay_agents: Mapping[str, DistanceProber]  # of connected relays
    figures: Mapping[str, Figures]

    @property
    def method(self) -> Choosing:
        assert self.site.relaying is not None
        return self.site.relaying.choose

    @property
    def may_go_direct(self) -> bool:
        assert self.site.relaying is not None
        return self.site.relaying.fallback is Fallback.DIRECT


class RelayChooser:
    def __init__(self, uplink_bps: UplinkBps) -> None:
        self._uplink_bps = uplink_bps
        self.ways = Distances()
        self._destinations: dict[str, Destinations] = {}  # by site
        self._relay_states: dict[str, tuple[tuple[str, bool, int, int], ...]] = {}  # by site, at the last choice

    def keep(self, sites: Iterable[str]) -> None:
        self._destinations = {site: self._destinations.get(site, Destinations()) for site in sites}

    def destination(self, site: str, prefix: str) -> Destination | None:
        return self._destinations[site].by_prefix.get(prefix)

    def counted(self, site: str) -> tuple[int, int]:
        """Return the number of destinations, and of those with a choice."""
        places = self._destinations[site].by_prefix.values()
        return len(places), sum(each.choice is not None for each in places)

    def seek(self, context: RelayContext, one: PendingDestination, now: float) -> None:
        destination = self._get_or_add(context, one)
        if not destination.settles(now):
            destination.measuring_since = now
            self._measure(self._measurements_for(context, destination), now)

    def ask(self, context: RelayContext, one: PendingDestination, now: float, anew: bool) -> list[tuple[str, str]]:
        """Return the pairs of agent and address. Known distances are measured again on request."""
        destination = self._get_or_add(context, one)
        destination.measuring_since = now
        return self._measure(self._measurements_for(context, destination), now, anew)

    def _get_or_add(self, context: RelayContext, one: PendingDestination) -> Destination:
        destination = self._destinations[context.site.name].get_or_add(one)
        while sum(len(each.by_prefix) for each in self._destinations.values()) > MOST_DESTINATIONS:
            max(
                self._destinations.values(), key=lambda each: len(each.by_prefix)
            ).forget_oldest()  # from the site with the most
        return destination

    def _measurements_for(
        self, context: RelayContext, destination: Destination
    ) -> Iterator[tuple[DistanceProber, DistanceTarget]]:
        there = DistanceTarget(destination.address, destination.port, context.method is Choosing.TRACEROUTE)
        if context.relays:
            yield context.gateway, there
        for name, each in context.relays.items():
            yield context.gateway, DistanceTarget(str(each.address), each.port)
            if name in context.relay_agents:
                yield context.relay_agents[name], there

    def _measure(
        self, ways: Iterable[tuple[DistanceProber, DistanceTarget]], now: float, anew: bool = False
    ) -> list[tuple[str, str]]:
        measured = []
        for prober, to in ways:
            if anew or self.ways.is_due(prober.name, to.address, now, to.routers):
                prober.want(to)
                if prober.is_on_its_way(to.address):
                    measured.append((prober.name, to.address))
        return measured

    def on_distances(self, agent: str, ways: Iterable[Distance], now: float) -> None:
        """Record distances. Those of a gateway concern its own site, those of a relay all sites."""
        for way in ways:
            self.ways.tell(agent, way, now)
            if agent in self._destinations:
                self._on_gateway_distance(self._destinations[agent], way.address)
            else:
                for places in self._destinations.values():
                    places.touch(way.address)

    def _on_gateway_distance(self, places: Destinations, address: str) -> None:
        is_destination = any(destination.address == address for destination in places.by_prefix.values())
        places.touch(address if is_destination else None)

    def touch(self, site: str) -> None:
        self._destinations[site].touch()

    def choose(self, context: RelayContext, now: float) -> None:
        way = CHOOSE.get(context.method)
        if way is None:
            return
        if self._relay_states.get(context.site.name) != (states := _relay_states(context)):
            self._relay_states[context.site.name] = states
            self.touch(context.site.name)
        for destination in list(
            self._destinations[context.site.name].to_choose(lambda one: self._waits(context, one), now)
        ):
            destination.due, destination.chosen_at = False, now
            if (
                destination.choice is not None
                and self._is_compared(context, destination, now)
                and self._is_open(context, destination, now)
            ):
                self._measure(self._measurements_for(context, destination), now)
                continue  # the choice stays until the distances are known
            query = self.query(context, destination, now)
            destination.choice = way(query) if query is not None else None
            if destination.choice is not None:
                destination.present = destination.choice.relays

    def query(self, context: RelayContext, destination: Destination, now: float) -> RelayQuery | None:
        """Return the inputs of a choice, or None if relays or the direct distance are missing."""
        name = context.site.name
        direct = self.ways.leg(name, destination.address, now)
        if direct is None or not context.relays or self._is_open(context, destination, now):
            return None
        relaying = context.site.relaying
        uplink_bps = (relaying and relaying.bandwidth_bps) or self._uplink_bps(name, now)
        candidates = (self._candidate(context, each, destination, direct, uplink_bps, now) for each in context.relays)
        there = tuple(each for each in candidates if each is not None)
        return RelayQuery(
            destination.prefix, replace(direct, bandwidth_bps=uplink_bps), there, destination.present, uplink_bps
        )

    def _is_compared(self, context: RelayContext, destination: Destination, now: float) -> bool:
        """Return whether the direct distance is still known. Once it expires, unused destinations are not measured."""
        return self.ways.leg(context.site.name, destination.address, now) is not None

    def _is_open(self, context: RelayContext, destination: Destination, now: float) -> bool:
        """Return whether a distance must be measured before a choice.

        A relay must not lose because its distance is older, or because it was away when the destination came up. New
        connections cause measurements for destinations without a choice.
        """
        return any(
            prober.unable is None
            and not prober.is_on_its_way(to.address)
            and self.ways.is_open(prober.name, to.address, now)
            for prober, to in self._measurements_for(context, destination)
        )

    def together(self, site: Site) -> frozenset[tuple[str, ...]]:
        places = self._destinations.get(site.name)
        parallel = site.relaying is not None and site.relaying.choose is Choosing.PARALLEL
        return places.together() if places is not None and parallel else frozenset()

    def choices(self, context: RelayContext) -> Choices:
        if context.method not in CHOOSE:
            return NO_CHOICES
        return Choices(self._destinations[context.site.name].choices(context.relays, context.may_go_direct))

    def _candidate(
        self,
        context: RelayContext,
        name: str,
        destination: Destination,
        direct: Leg,
        uplink_bps: float | None,
        now: float,
    ) -> Candidate | None:
        near = self.ways.leg(context.site.name, str(context.relays[name].address), now)
        far = self.ways.leg(name, destination.address, now)
        if near is None or far is None:
            return None
        figures = context.figures.get(name)
        report = figures.report if figures else None
        return candidate(name, replace(near, bandwidth_bps=uplink_bps), believed(direct, near, far), report)

    def _waits(self, context: RelayContext, destination: Destination) -> bool:
        """Wait for measurements, and for relays that have not reported since a restart."""
        if any(name not in context.figures for name in context.relays):
            return True
        gateway = context.gateway
        near = (str(each.address) for each in context.relays.values())
        return any(gateway.is_on_its_way(each) for each in (destination.address, *near)) or any(
            prober.is_on_its_way(destination.address) for prober in context.relay_agents.values()
        )


def _relay_states(context: RelayContext) -> tuple[tuple[str, bool, int, int], ...]:
    """Return the connected relays and their reports in coarse steps, as exact figures change with each report."""
    reports = ((name, each.report) for name, each in context.figures.items() if name in context.relays)
    return tuple(
        (name, name in context.relay_agents, max(one.busy_percent, BUSY_FROM_PERCENT) // 5, one.overhead_us // 1000)
        for name, one in reports
    )
