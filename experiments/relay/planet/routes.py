# SPDX-License-Identifier: Apache-2.0
"""Routes between hosts: by policy, leaving each network by its nearest border.

So ways back differ, and a detour may be shorter.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from experiments.relay.planet.networks import IN_TOWN_MS, Border, Line, Network, Networks
from experiments.relay.planet.places import REGION_OF, distance_km

# Policies (Gao and Rexford): a network announces all routes to customers, and its customers' routes to everybody. It
# prefers a customer's route to a neighbour's, that to a provider's, and a short one to a long one.

CUSTOMER, NEIGHBOUR, PROVIDER = range(3)


def chains(networks: Mapping[str, Network], destination: str) -> dict[str, tuple[str, ...]]:
    """Return the chain of networks from each network to the destination, itself first."""
    found: dict[str, tuple[str, ...]] = {destination: (destination,)}
    while True:
        after: dict[str, tuple[str, ...]] = {destination: (destination,)}
        for name, network in networks.items():
            if name == destination:
                continue
            offered = list(_offered(networks, found, network))
            if offered:
                after[name] = (name, *min(offered, key=lambda chain: _rank(networks, network, chain)))
        if after == found:
            return found
        found = after


def _offered(
    networks: Mapping[str, Network], found: Mapping[str, tuple[str, ...]], network: Network
) -> Iterator[tuple[str, ...]]:
    for neighbour in network.borders:
        chain = found.get(neighbour)
        if chain is None or network.name in chain:
            continue
        to_customer = network.name in networks[neighbour].customers
        if to_customer or len(chain) == 1 or chain[1] in networks[neighbour].customers:
            yield chain


def _rank(networks: Mapping[str, Network], network: Network, chain: tuple[str, ...]) -> tuple[int, bool, int, str]:
    first = chain[0]
    kind = CUSTOMER if first in network.customers else PROVIDER if first in network.providers else NEIGHBOUR
    not_preferred = not (networks[first].research or network.by_length)
    return kind, not_preferred, len(chain), first


ROUTER_MS = 0.03  # per packet
HOST_MS = (0.1, 0.8)  # to its campus border, one way
CAMPUS_ROUTERS = (1, 3)


@dataclass(frozen=True, slots=True)
class Place:
    network: str
    city: str


@dataclass(frozen=True, slots=True)
class Hop:
    router: str  # with the incoming side, as traceroute sees it
    at: Place
    after_ms: float  # since sending
    from_place_ms: float = 0.0  # distance behind it, on a campus


@dataclass(frozen=True, slots=True)
class HostPath:
    hops: tuple[Hop, ...]
    delay_ms: float


@dataclass(frozen=True, slots=True)
class Campus:
    gateway: Place
    routers: int
    delay_ms: float  # one way, between host and campus border


class Routes:
    def __init__(self, hosts: tuple[str, ...], seed: int) -> None:
        self._networks = Networks(seed)
        self._campuses = {host: self._campus(host) for host in hosts}
        self._chains = cache(lambda to: chains(self._networks.by_name, to))
        self._shortest_paths = cache(_shortest_paths)
        self._passed = cache(lambda start, end: tuple(self._routers_between(start, end)))
        self.way = cache(self._way)

    def rtt_ms(self, one: str, other: str) -> float:
        """Return the RTT without queueing."""
        return self.way(one, other).delay_ms + self.way(other, one).delay_ms

    def rtt_of_hop_ms(self, sender: str, hop: Hop) -> float:
        """Return the RTT to a router; its answer may take another path."""
        gateway = self._campuses[sender].gateway
        back_ms = sum(delay_ms + ROUTER_MS for _, delay_ms in self._passed(hop.at, gateway))
        return hop.after_ms + hop.from_place_ms + back_ms + self._campuses[sender].delay_ms

    def _campus(self, host: str) -> Campus:
        networks = self._networks
        gateway = Place(*networks.attachment(host, REGION_OF[host]))
        away_ms = networks.line_ms(host, gateway.city) if distance_km(host, gateway.city) else IN_TOWN_MS
        return Campus(gateway, networks.dice.randint(*CAMPUS_ROUTERS), away_ms + networks.dice.uniform(*HOST_MS))

    def _way(self, sender: str, receiver: str) -> HostPath:
        start, end = self._campuses[sender], self._campuses[receiver]
        at_ms = start.delay_ms
        hops = [Hop(f"{sender} {n}", start.gateway, 0.0) for n in range(start.routers)]
        for (place, router), delay_ms in self._passed(start.gateway, end.gateway):
            at_ms += delay_ms + ROUTER_MS
            hops.append(Hop(f"{router} from {hops[-1].router.partition(' from ')[0]}", place, at_ms))
        for n in range(end.routers):
            behind_ms = end.delay_ms * (n + 1) / (end.routers + 1)
            hops.append(Hop(f"{receiver} {n}", end.gateway, at_ms + behind_ms, behind_ms))
        return HostPath(tuple(hops), at_ms + end.delay_ms)

    def _routers_between(self, start: Place, end: Place) -> Iterator[tuple[tuple[Place, str], float]]:
        """Yield each router from one place to another with its place, and the one-way delay of the line to it."""
        chain = self._chains(end.network)[start.network]
        city, arrival_ms = start.city, 0.0
        for name, following in zip(chain, (*chain[1:], ""), strict=True):
            network = self._networks.by_name[name]
            border = self._exit(network, city, following) if following else None
            cities = self._shortest_paths(network, city)[border.here if border else end.city][1]
            yield from _inside(network, cities, arrival_ms)
            if border:
                city, arrival_ms = border.there, border.delay_ms

    def _exit(self, network: Network, city: str, following: str) -> Border:
        return min(network.borders[following], key=lambda border: self._shortest_paths(network, city)[border.here][0])


def _inside(network: Network, cities: tuple[str, ...], arrival_ms: float) -> Iterator[tuple[tuple[Place, str], float]]:
    """Yield a network's routers: a backbone's city has one for lines and one for neighbours."""
    places = [Place(network.name, city) for city in cities]
    names = [f"{network.name}-{city}" for city in cities]
    delays = [0.0, *(_line(network, here, there).delay_ms for here, there in pairwise(cities))]
    if not network.backbone:
        delays[0] = arrival_ms
        yield from zip(zip(places, names, strict=True), delays, strict=True)
        return
    yield (places[0], f"{names[0]}-edge"), arrival_ms
    if len(cities) > 1:
        yield from zip(zip(places, names, strict=True), delays, strict=True)
        yield (places[-1], f"{names[-1]}-edge"), 0.0


def _line(network: Network, here: str, there: str) -> Line:
    return next(line for line in network.lines[here] if line.to == there)


def _shortest_paths(network: Network, start: str) -> dict[str, tuple[float, tuple[str, ...]]]:
    """Return each city's distance by weight and the cities on the way (Dijkstra)."""
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    front: list[tuple[float, tuple[str, ...]]] = [(0.0, (start,))]
    while front:
        weight, cities = heapq.heappop(front)
        if cities[-1] in found:
            continue
        found[cities[-1]] = (weight, cities)
        for line in network.lines[cities[-1]]:
            heapq.heappush(front, (weight + line.weight, (*cities, line.to)))
    return found
