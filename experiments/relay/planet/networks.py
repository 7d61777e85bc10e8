# SPDX-License-Identifier: Apache-2.0
"""The networks between the hosts: research networks, carriers and regions.

    host ── region ── research network of its continent ══ the other continents'
                  └── carrier, of which there are three, around the planet

Light takes a millisecond for 200 km of fibre, which is longer than the great circle. Operators' weights do not always
match delays. A border is where two networks share a city or are near. Full borders queue packets in one direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from experiments.relay.planet.places import HOSTS, distance_km

KM_PER_MS = 200.0
LAND, SEA = (1.2, 1.9), (1.15, 1.5)  # times the great circle
WEIGHTS = (0.8, 1.4)  # times the delay
IN_TOWN_MS = 0.1
FULL_SHARE, FULL_MS = 0.2, 4.0  # full borders and sea cables, and their mean queueing delay
BY_LENGTH_SHARE = 0.25  # of regions, which do not prefer research networks to carriers
HOST_BY_CARRIER_SHARE = 0.2

RESEARCH = {
    "us": (
        "seattle", "stanford", "los-angeles", "denver", "kansas-city", "houston", "bloomington", "chicago",
        "atlanta", "washington", "new-york",
    ),
    "europe": (
        "london", "paris", "amsterdam", "frankfurt", "geneva", "milan", "vienna", "madrid", "stockholm",
        "copenhagen", "warsaw", "athens", "lisbon",
    ),
    "asia": ("tokyo", "seoul", "beijing", "hong-kong", "taipei", "singapore", "bangkok", "manila", "hanoi", "mumbai"),
}  # fmt: skip
RESEARCH_PEERING = (
    ("us", "new-york", "europe", "london"), ("us", "washington", "europe", "frankfurt"),
    ("us", "chicago", "europe", "amsterdam"), ("us", "los-angeles", "asia", "tokyo"),
    ("us", "seattle", "asia", "tokyo"), ("us", "seattle", "asia", "seoul"), ("us", "los-angeles", "asia", "hong-kong"),
    ("europe", "london", "asia", "singapore"),
)  # fmt: skip
CARRIER_CITIES = (
    "seattle", "stanford", "los-angeles", "salt-lake", "denver", "dallas", "chicago", "saint-louis", "atlanta", "miami",
    "washington", "new-york", "boston", "london", "paris", "amsterdam", "frankfurt", "zurich", "milan", "vienna",
    "madrid", "lisbon", "stockholm", "copenhagen", "warsaw", "athens", "tokyo", "osaka", "seoul", "shanghai",
    "hong-kong", "taipei", "singapore", "manila", "bangkok", "mumbai",
)  # fmt: skip
CARRIER_CITY_SHARE = 0.75  # probability that a carrier serves a city
CABLES = {
    "carrier-1": (("new-york", "london"), ("washington", "paris"), ("seattle", "tokyo"), ("los-angeles", "hong-kong")),
    "carrier-2": (("new-york", "amsterdam"), ("boston", "london"), ("los-angeles", "tokyo"), ("stanford", "taipei")),
    "carrier-3": (("washington", "frankfurt"), ("miami", "madrid"), ("seattle", "seoul"), ("los-angeles", "singapore")),
}
PEERINGS = 6  # two carriers exchange traffic in at most this many cities


@dataclass(frozen=True, slots=True)
class Line:
    to: str  # city of the other router, in the same network
    delay_ms: float  # one way, including queues
    weight: float


@dataclass(frozen=True, slots=True)
class Border:
    """A link between two networks."""

    here: str  # city of this network's router
    there: str  # city of the neighbour network's router
    delay_ms: float  # one way


@dataclass(slots=True, eq=False)
class Network:
    name: str
    backbone: bool  # each city has a router for lines and one for neighbours
    research: bool = False
    by_length: bool = False
    lines: dict[str, list[Line]] = field(default_factory=dict)  # by city
    borders: dict[str, list[Border]] = field(default_factory=dict)  # by other network
    providers: set[str] = field(default_factory=set)
    customers: set[str] = field(default_factory=set)


class Networks:
    """All networks of one seed; `dice` also serves later draws."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.by_name: dict[str, Network] = {}
        for continent, cities in RESEARCH.items():
            self._add_network(Network(f"research-{continent}", True, research=True), cities)
        for name, cables in CABLES.items():
            ashore = {city for cable in cables for city in cable}
            drawn = [city for city in CARRIER_CITIES if city in ashore or self.dice.random() < CARRIER_CITY_SHARE]
            self._add_network(Network(name, True), drawn)
            for one, other in cables:
                self._line(name, one, other, SEA)
        for one_continent, one, other_continent, other in RESEARCH_PEERING:
            self._border(f"research-{one_continent}", one, f"research-{other_continent}", other)
        for first, second in combinations(CABLES, 2):
            shared = sorted(set(self.by_name[first].lines) & set(self.by_name[second].lines))
            for city in self.dice.sample(shared, min(PEERINGS, len(shared))):
                self._border(first, city, second, city)
        for continent, regions in HOSTS.items():
            for region, hosts in regions.items():
                self._region(region, f"research-{continent}", tuple(hosts))

    def attachment(self, host: str, region: str) -> tuple[str, str]:
        """Return the network and its city."""
        if self.dice.random() >= HOST_BY_CARRIER_SHARE:
            return region, host
        carrier = self.dice.choice(list(CABLES))
        return carrier, min(self.by_name[carrier].lines, key=lambda city: distance_km(city, host))

    def line_ms(self, one: str, other: str, inflation: tuple[float, float] = LAND) -> float:
        return IN_TOWN_MS + distance_km(one, other) / KM_PER_MS * self.dice.uniform(*inflation)

    def _region(self, name: str, research: str, hosts: tuple[str, ...]) -> None:
        by_length = self.dice.random() < BY_LENGTH_SHARE
        self._add_network(Network(name, False, by_length=by_length), hosts)
        carrier = self.dice.choice(list(CABLES))
        for provider, most in ((research, 2 if len(hosts) > 2 else 1), (carrier, 1)):
            cities = self.by_name[provider].lines
            nearest = sorted(
                ((one, min(cities, key=lambda city: distance_km(city, one))) for one in hosts),
                key=lambda pair: distance_km(*pair),
            )
            for here, there in nearest[:most]:
                self._border(name, here, provider, there)
            self.by_name[name].providers.add(provider)
            self.by_name[provider].customers.add(name)

    def _add_network(self, network: Network, cities: Sequence[str]) -> None:
        network.lines = {city: [] for city in cities}
        self.by_name[network.name] = network
        for one, other in sorted(set(_neighbours(cities))):
            self._line(network.name, one, other, LAND)

    def _line(self, network: str, one: str, other: str, inflation: tuple[float, float]) -> None:
        delay_ms = self.line_ms(one, other, inflation)
        weight = delay_ms * self.dice.uniform(*WEIGHTS)
        for here, there in ((one, other), (other, one)):
            waits_ms = self._queueing_ms() if inflation is SEA else 0.0
            self.by_name[network].lines[here].append(Line(there, delay_ms + waits_ms, weight))

    def _border(self, one: str, one_city: str, other: str, other_city: str) -> None:
        delay_ms = self.line_ms(one_city, other_city, LAND if distance_km(one_city, other_city) < 2000 else SEA)
        for name, here, neighbour, there in ((one, one_city, other, other_city), (other, other_city, one, one_city)):
            borders = self.by_name[name].borders.setdefault(neighbour, [])
            borders.append(Border(here, there, delay_ms + self._queueing_ms()))

    def _queueing_ms(self) -> float:
        return self.dice.expovariate(1 / FULL_MS) if self.dice.random() < FULL_SHARE else 0.0


def _neighbours(cities: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each city with its two nearest, and a minimum spanning tree."""
    for city in cities:
        near = sorted((other for other in cities if other != city), key=lambda other: distance_km(city, other))
        yield from ((min(city, other), max(city, other)) for other in near[:2])
    reached, left = list(cities[:1]), list(cities[1:])
    while left:
        pairs = ((one, other) for one in reached for other in left)
        one, other = min(pairs, key=lambda pair: distance_km(*pair))
        yield min(one, other), max(one, other)
        reached.append(other)
        left.remove(other)
