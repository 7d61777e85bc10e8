# SPDX-License-Identifier: Apache-2.0
"""The match fields of a traffic class: one match per combination of values.

A port range becomes masked blocks. Open vSwitch masks any bits of a port; OpenFlow 1.3.5 (7.2.3.7) matches whole ports
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses
from itertools import product
from math import prod

from controller.model.traffic import Family, TrafficClass
from controller.program.program import Value, written

Criteria = Mapping[str, Value]
ANY: tuple[Criteria, ...] = ({},)
PORT_BITS = 16


class Direction(Enum):
    """The direction of a packet for its terminal. The value is the other end's side: source or destination."""

    SENT = "dst"
    RECEIVED = "src"


@lru_cache(maxsize=4096)
def matches(traffic: TrafficClass, family: Family, direction: Direction) -> tuple[Criteria, ...]:
    """Return the matches. Empty: no packet of this family is in the class."""
    chosen = product(*_kinds(traffic, family, direction))
    return tuple({name: value for each in one for name, value in each.items()} for one in chosen)


def count(traffic: TrafficClass, family: Family) -> int:
    return prod(map(len, _kinds(traffic, family, Direction.SENT)))


def _kinds(traffic: TrafficClass, family: Family, direction: Direction) -> tuple[tuple[Criteria, ...], ...]:
    other_end = family.destination if direction is Direction.SENT else family.source
    return (
        tuple(_layer_4(traffic, family, direction)) or ANY,
        tuple({"ip_dscp": value} for value in sorted(set(traffic.dscp))) or ANY,
        tuple({other_end: network} for network in _networks(traffic, family)) if traffic.networks else ANY,
    )


def _layer_4(traffic: TrafficClass, family: Family, direction: Direction) -> Iterator[Criteria]:
    for protocol in traffic.protocols:
        number: Criteria = {"ip_proto": protocol.number(family)}
        if not traffic.ports:
            yield number
        for block in blocks(traffic.ports):
            yield {**number, f"{protocol.label}_{direction.value}": block}


def blocks(ports: Iterable[range]) -> Iterator[Value]:
    for each in _merged(ports):
        begin = each.start
        while begin < each.stop:
            size = begin & -begin or 1 << PORT_BITS
            while begin + size > each.stop:
                size >>= 1
            mask = (1 << PORT_BITS) - size
            yield begin if size == 1 else f"{begin:#x}/{mask:#x}"
            begin += size


def _merged(ports: Iterable[range]) -> Iterator[range]:
    """Yield disjoint ranges: no packet may match two flows of the same priority."""
    current: range | None = None
    for each in sorted(ports, key=lambda one: one.start):
        if current is not None and each.start <= current.stop:
            current = range(current.start, max(current.stop, each.stop))
        else:
            if current is not None:
                yield current
            current = each
    if current is not None:
        yield current


def _networks(traffic: TrafficClass, family: Family) -> tuple[str, ...]:
    found: Iterator[IPv4Network] | Iterator[IPv6Network]
    if family is Family.IPV4:
        found = collapse_addresses(each for each in traffic.networks if isinstance(each, IPv4Network))
    else:
        found = collapse_addresses(each for each in traffic.networks if isinstance(each, IPv6Network))
    return tuple(map(written, found))
