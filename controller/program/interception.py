"""Terminals' TCP that goes to the host, which carries it to relays, and what the host sends back.

    ENTRY   at the port by which it is taken: TCP for a relayed terminal, whoever it is of, and TCP in its name, which
            the host could not relay and passes on; of nothing else, and of no other protocol
    ROUTE   of what leaves the site, TCP of a relayed terminal goes to the host, but for what goes to the other end or
            to a network that is excepted. What the host has passed on came by its port, and is not taken again

While that port is not there, or down, nothing is taken, or, where it shall not go directly, it ends here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.config import HOST_MAC, Fallback, Family, Protocol, Site
from controller.model.known import Port
from controller.program.boundary import apart
from controller.program.groups import LEAVE, ROUTE, Served, served
from controller.program.program import Action, Fields, Flow, Output, SetField, Value, fields
from controller.program.responders import ENTRY

TO_TERMINAL_PRIORITY, PASSED_ON_PRIORITY = 10, 9  # ENTRY
UNTAKEN_PRIORITY, TAKEN_PRIORITY = 18, 14  # ROUTE: below what stays inside or goes nowhere, above what leaves


def by(site: Site, port: str) -> bool:
    """Whether it is that port. A bridge in userspace keeps the port of a device that is gone, which is down then."""
    return site.relaying is not None and site.relaying.port == port


def taken(site: Site) -> tuple[Served, ...]:
    """The addresses whose TCP is."""
    families = site.relaying.families if site.relaying else ()
    relayed = (each for each in served(site) if each.terminal.relayed and not each.place.by_relay)
    return tuple(each for each in relayed if each.family in families)


def entering(site: Site, in_port: int) -> Iterator[Flow]:
    """From the host, by the port of this number."""
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
            yield Flow(ROUTE, UNTAKEN_PRIORITY, match, goto=LEAVE)
    host = wires.get(site.relaying.port)
    if host or site.relaying.fallback is Fallback.BLOCK:
        to_host: tuple[Action, ...] = (SetField("eth_dst", HOST_MAC), Output(host.number)) if host else ()
        for each in taken(site):
            if port := wires.get(each.place.port):
                yield Flow(ROUTE, TAKEN_PRIORITY, _sent(each, port), to_host)


def _sent(each: Served, port: Port) -> Fields:
    return fields(**_tcp(each.family, in_port=port.number), **{each.family.source: each.address})


def _tcp(family: Family, **more: Value) -> dict[str, Value]:
    return {"eth_type": family.eth_type, "ip_proto": Protocol.TCP.number(family), **more}
