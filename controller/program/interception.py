# SPDX-License-Identifier: Apache-2.0
"""The interception of terminals' TCP: to the host, which relays it, and back.

At the host's port ENTRY accepts only TCP to a relayed terminal, and TCP with its source, which the host could not
relay. ROUTE does not intercept the latter again.

While that port is missing or down nothing is intercepted. With the fallback `block`, such TCP is dropped then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.config import Site
from controller.model.observed import Port
from controller.model.relaying import HOST_MAC, Fallback
from controller.model.traffic import Family, Protocol
from controller.program.antispoofing import apart
from controller.program.groups import Served, served
from controller.program.program import Action, Fields, Flow, Output, SetField, Value, fields
from controller.program.tables import (
    ENTRY,
    EXCEPTED_PRIORITY,
    INTERCEPT_PRIORITY,
    LEAVE,
    PASSED_ON_PRIORITY,
    ROUTE,
    TO_TERMINAL_PRIORITY,
)


def is_host_port(site: Site, port: str) -> bool:
    """Return whether this is the host's port. A userspace bridge keeps a vanished device's port, in state down."""
    return site.relaying is not None and site.relaying.port == port


def taken(site: Site) -> tuple[Served, ...]:
    families = site.relaying.families if site.relaying else ()
    relayed = (each for each in served(site) if each.terminal.relayed and not each.place.by_relay)
    return tuple(each for each in relayed if each.family in families)


def entering(site: Site, in_port: int) -> Iterator[Flow]:
    for each in taken(site):
        family, tcp = each.family, _tcp(each.family, in_port=in_port)
        yield Flow(ENTRY, TO_TERMINAL_PRIORITY, fields(**tcp, **{family.destination: each.address}), goto=ROUTE)
        yield Flow(ENTRY, PASSED_ON_PRIORITY, fields(**tcp, **{family.source: each.address}), goto=ROUTE)


def taking(site: Site, wires: Mapping[str, Port]) -> Iterator[Flow]:
    if site.relaying is None:
        return
    for family in site.relaying.families:
        for network in apart(site.relaying.excepted, family):
            match = fields(eth_type=family.eth_type, **{family.destination: network})
            yield Flow(ROUTE, EXCEPTED_PRIORITY, match, goto=LEAVE)
    host = wires.get(site.relaying.port)
    if host or site.relaying.fallback is Fallback.BLOCK:
        to_host: tuple[Action, ...] = (SetField("eth_dst", HOST_MAC), Output(host.number)) if host else ()
        for each in taken(site):
            if port := wires.get(each.place.port):
                yield Flow(ROUTE, INTERCEPT_PRIORITY, _sent(each, port), to_host)


def _sent(each: Served, port: Port) -> Fields:
    return fields(**_tcp(each.family, in_port=port.number), **{each.family.source: each.address})


def _tcp(family: Family, **more: Value) -> dict[str, Value]:
    return {"eth_type": family.eth_type, "ip_proto": Protocol.TCP.number(family), **more}
