# SPDX-License-Identifier: Apache-2.0
"""The traffic classes of a site: bounded, and no packet belongs to two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, combinations
from typing import TypeVar

from controller.edges.config.document import Node
from controller.model.config import ConfigError, Mode, Terminal
from controller.model.traffic import REST, Address, Family, Network, Protocol, TrafficClass
from controller.program.matching import count

T = TypeVar("T")

MOST_CLASSES = MOST_VALUES = 16
MOST_FLOWS = 16_384  # of one site
NAMED_IN_A_SENTENCE = 3
LAST_PORT = 65535
BICAST = "bicast"  # copied packets outside every named class
PROTOCOLS = {protocol.label: protocol for protocol in Protocol}
WITH_PORTS = {label: protocol for label, protocol in PROTOCOLS.items() if protocol is not Protocol.ICMP}


def classes_of(place: Node) -> tuple[TrafficClass, ...]:
    places = dict(place.by_name(MOST_CLASSES, "classes"))
    classes = tuple(_class(name, inner) for name, inner in places.items())
    for first, second in combinations(classes, 2):
        if shared := _shared(first, second):
            where, expected = (
                places[second.name].where,
                (f"a class that does not overlap {first.name}: {shared} would belong to both"),
            )
            raise ConfigError(place.file, where, second.name, expected)
    return classes


def modes_of(place: Node, classes: Iterable[TrafficClass]) -> tuple[tuple[str, Mode], ...]:
    there = [traffic.name for traffic in classes]
    named = place.named()
    for name, inner in named.items():
        if name not in there:
            raise ConfigError(place.file, inner.where, name, _one_of(there))
    return tuple((name, inner.choice({mode.value: mode for mode in Mode})) for name, inner in named.items())


def _one_of(there: list[str]) -> str:
    return f"one of the site's classes {', '.join(there)}" if there else "no class: the site has no `classes`"


def flows_of(classes: Iterable[TrafficClass], addresses: Iterable[Address | Network]) -> int:
    families = [Family.of(address) for address in addresses]
    return sum(count(traffic, family) * families.count(family) for traffic in classes for family in Family)


def few_enough(classes: tuple[TrafficClass, ...], terminals: Iterable[Terminal], place: Node) -> None:
    """Raise ConfigError above MOST_FLOWS. A relayed terminal's own addresses count too: they use another port."""
    sent = ((*each.addresses, *(each.own if each.relayed else ())) for each in terminals)
    flows = flows_of(classes, (at.address for at in chain.from_iterable(sent)))
    if flows > MOST_FLOWS:
        raise ConfigError(
            place.file, place.where, f"classes that need {flows} flows", too_many("the terminals' addresses")
        )


def too_many(times: str) -> str:
    return f"classes that need at most {MOST_FLOWS} flows: their blocks of ports, DSCPs and networks, times {times}"


def _class(name: str, place: Node) -> TrafficClass:
    if name in (BICAST, REST.name):
        raise ConfigError(
            place.file, place.where, name, "another name: this one means all packets outside the named classes"
        )
    keys = place.mapping("protocols", "ports", "dscp", "addresses")
    protocols = keys.maybe("protocols", lambda at: _values(at, lambda inner: inner.choice(PROTOCOLS)), ())
    ports = keys.maybe("ports", lambda at: _values(at, _ports), ())
    if ports and not (protocols and set(protocols) <= set(WITH_PORTS.values())):
        raise keys["ports"].wrong(f"`protocols` beside it with {', '.join(WITH_PORTS)}: other protocols have no ports")
    traffic = TrafficClass(
        name,
        protocols,
        ports,
        keys.maybe("dscp", lambda at: _values(at, lambda inner: inner.integer(0, 63)), ()),
        keys.maybe("addresses", lambda at: _values(at, Node.network), ()),
    )
    if traffic == TrafficClass(name):
        raise place.wrong("at least one of the keys protocols, ports, dscp, addresses")
    return traffic


def _values(place: Node, read: Callable[[Node], T]) -> tuple[T, ...]:
    values = tuple(read(inner) for inner in place.each(MOST_VALUES, "values"))
    if not values or len(set(values)) != len(values):
        raise place.wrong("a list of different values, or no key to match any value")
    return values


def _ports(place: Node) -> range:
    expected = f"a port from 1 to {LAST_PORT}, or two with the lower one first, such as 10000-10015"
    first, dash, last = place.text(expected).partition("-")
    ends = [Node(place.file, place.where, end) for end in ((first, last) if dash else (first, first))]
    try:
        begin, end = (each.integer(1, LAST_PORT) for each in ends)
    except ConfigError:
        begin, end = 1, 0
    if begin > end:
        raise place.wrong(expected)
    return range(begin, end + 1)


def _shared(first: TrafficClass, second: TrafficClass) -> str | None:
    """Describe packets that both classes match.

    A class matches every combination of its values, so classes overlap if every kind of values overlaps.
    """
    kinds = (
        _both(first.protocols, second.protocols, _equal, lambda protocol: protocol.label),
        _both(first.ports, second.ports, _ports_of_both, lambda ports: f"port {_written(ports)}"),
        _both(first.dscp, second.dscp, _equal, lambda dscp: f"DSCP {dscp}"),
        _both(first.networks, second.networks, _network_of_both, str),
    )
    return None if None in kinds else " ".join(each for each in kinds if each)


def _both(
    first: tuple[T, ...], second: tuple[T, ...], meet: Callable[[T, T], T | None], say: Callable[[T], str]
) -> str | None:
    """Describe the values of one kind that both classes match. None: they share none. Empty: any value."""
    if not first or not second:
        met = list(first or second)
    else:
        met = [both for one in first for other in second if (both := meet(one, other)) is not None]
        if not met:
            return None
    more = " or ..." if len(met) > NAMED_IN_A_SENTENCE else ""
    return " or ".join(map(say, met[:NAMED_IN_A_SENTENCE])) + more


def _equal(first: T, second: T) -> T | None:
    return first if first == second else None


def _ports_of_both(first: range, second: range) -> range | None:
    return range(max(first.start, second.start), min(first.stop, second.stop)) or None


def _network_of_both(first: Network, second: Network) -> Network | None:
    if first.version != second.version or not first.overlaps(second):
        return None
    return max(first, second, key=lambda network: network.prefixlen)


def _written(ports: range) -> str:
    return str(ports.start) if len(ports) == 1 else f"{ports.start}-{ports.stop - 1}"
