# SPDX-License-Identifier: Apache-2.0
"""The neighbours of a bridge: requests, answers and proxy replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.model.config import Datapath, Site
from controller.model.observed import Neighbour, Observed
from controller.model.traffic import Address, Family
from controller.program.neighbour_proxy import subnet_answered
from controller.protocol.switch_messages import Advertise, Ask, Solicited

# Damping: a changed MAC counts at most once a second
#
# Each change costs a compilation, and a host may claim a new MAC a thousand times a second.

CHANGE_EVERY_S = 1.0


class NeighbourDamping:
    def __init__(self) -> None:
        self._changed_at: dict[Neighbour, float] = {}
        self._waiting: dict[Neighbour, str] = {}  # newest MACs that came too early

    def accepts(self, where: Neighbour, mac: str, known: str | None, now: float) -> bool:
        """Return whether `mac` replaces the known MAC. A MAC that comes too early may be due() later."""
        self._waiting.pop(where, None)
        if mac == known:
            return False
        if where in self._changed_at and now - self._changed_at[where] < CHANGE_EVERY_S:
            self._waiting[where] = mac
            return False
        self._changed_at[where] = now
        return True

    def due(self, now: float) -> dict[Neighbour, str]:
        """Remove and return the MACs that waited long enough. One compilation serves many."""
        due = {where: mac for where, mac in self._waiting.items() if now - self._changed_at[where] >= CHANGE_EVERY_S}
        for where in due:
            del self._waiting[where]
            self._changed_at[where] = now
        return due


# Schedule: frequent until an answer comes, then rare, to notice a change

NEXT_HOP_EVERY_S = 1.0  # no packet leaves by an uplink until its next hop has answered
TERMINAL_FIRST_S, TERMINAL_LAST_S = 1.0, 32.0  # backoff: an absent phone is not worth a broadcast per second
KNOWN_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class WantedNeighbour:
    """A neighbour to ask for its MAC or for a sign of life."""

    where: Neighbour
    source: Address
    source_mac: str
    uplink: str | None  # of a next hop; None: a terminal


def wanted_neighbours(site: Site, observed: Observed, doubted: frozenset[str]) -> Iterator[WantedNeighbour]:
    for uplink in site.uplinks:
        for hop in uplink.next_hops:
            own = uplink.address(Family.of(hop.address))
            port = observed.ports.get(uplink.port)
            if own and port and (not hop.mac or uplink.name in doubted):
                yield WantedNeighbour((uplink.port, hop.address), own.ip, uplink.mac or port.mac, uplink.name)
    for terminal in site.terminals:
        for place in terminal.addresses:
            subnet = site.subnet(place.subnet)
            own = subnet.gateway(Family.of(place.address))
            port = observed.ports.get(place.port)
            if own and port and place.host and not place.mac:
                yield WantedNeighbour((place.port, place.host), own.ip, subnet.mac or port.mac, None)


def learnable(site: Site) -> frozenset[Neighbour]:
    hops = ((uplink.port, hop.address) for uplink in site.uplinks for hop in uplink.next_hops if not hop.mac)
    places = ((at.port, at.host) for terminal in site.terminals for at in terminal.addresses if at.host and not at.mac)
    return frozenset((*hops, *places))


class Schedule:
    """The time of the next request to each address.

    Answers over an earlier connection, or from before a change of the port, do not count.
    """

    def __init__(self) -> None:
        self._next: dict[Neighbour, float] = {}
        self._pause_s: dict[Neighbour, float] = {}
        self._answered: set[Neighbour] = set()
        self._doubted: frozenset[str] = frozenset()  # uplinks whose next hops are asked as if they had never answered

    def due(
        self, site: Site, observed: Observed, now: float, doubted: frozenset[str] = frozenset()
    ) -> Iterator[WantedNeighbour]:
        for uplink in site.uplinks:
            if uplink.name in doubted - self._doubted:
                self.at_once(uplink.port)
        self._doubted = doubted
        for each in wanted_neighbours(site, observed, doubted):
            if observed.ports[each.where[0]].up and now >= self._next.get(each.where, now):
                self._next[each.where] = now + self._pause(each)
                yield each

    def answered(self, where: Neighbour) -> None:
        self._answered.add(where)
        self._pause_s.pop(where, None)

    def _pause(self, each: WantedNeighbour) -> float:
        if each.where in self._answered and each.uplink not in self._doubted:
            return KNOWN_EVERY_S
        if each.uplink:
            return NEXT_HOP_EVERY_S
        pause = self._pause_s.get(each.where, TERMINAL_FIRST_S)
        self._pause_s[each.where] = min(2 * pause, TERMINAL_LAST_S)
        return pause

    def at_once(self, port: str) -> None:
        """Ask again on a changed port: other hosts may be behind it now."""
        for where in [where for where in self._next if where[0] == port]:
            del self._next[where]
            self._pause_s.pop(where, None)
            self._answered.discard(where)


class Neighbourhood:
    """The neighbours of one switch whose MACs are not in gateway.yaml."""

    def __init__(self, site: Site) -> None:
        self._schedule, self._learning = Schedule(), NeighbourDamping()
        self.reconfigure(site)

    def reconfigure(self, site: Site) -> None:
        self._site, self._learnable = site, learnable(site)

    def opened(self) -> None:
        self._schedule = Schedule()

    def port_changed(self, port: str) -> None:
        self._schedule.at_once(port)

    def accepts(self, where: Neighbour, mac: str, known: str | None, now: float) -> bool:
        if where not in self._learnable:
            return False
        self._schedule.answered(where)
        return self._learning.accepts(where, mac, known, now)

    def due(self, now: float) -> Mapping[Neighbour, str]:
        return self._learning.due(now)

    def requests(self, session: int, observed: Observed, doubted: frozenset[str], now: float) -> Iterator[Ask]:
        for each in self._schedule.due(self._site, observed, now, doubted):
            name, address = each.where
            yield Ask(session, observed.ports[name].number, each.source_mac, each.source, address)


# Advertisements where no flow can answer: duplicate address detection, and on Open vSwitch's kernel datapath every
# solicitation (program/responders.py).

EVERY_S = 0.9  # per asker, which asks again after 1 s (RFC 4861, 10)


def advertisement(site: Site, observed: Observed, event: Solicited) -> Advertise | None:
    if not event.asker.is_unspecified and site.datapath is not Datapath.SYSTEM:
        return None
    name = observed.port_name(event.in_port)
    if not name:
        return None
    port = observed.ports[name]
    mac, proxied = _own_mac(site, name, port.mac, event.target), False
    if mac is None and (subnet := subnet_answered(site, name, event.target)):
        mac, proxied = subnet.mac or port.mac, True
    if mac is None:
        return None
    return Advertise(event.session, event.in_port, mac, event.target, event.asker, event.asker_mac, proxied)


def _own_mac(site: Site, port: str, port_mac: str, target: Address) -> str | None:
    for uplink in site.uplinks:
        if uplink.port == port and target in [own.ip for own in uplink.addresses]:
            return uplink.mac or port_mac
    for subnet in site.subnets:
        if not subnet.lan and port in site.inside_ports and target in [own.ip for own in subnet.gateways]:
            return subnet.mac or port_mac
    return None
