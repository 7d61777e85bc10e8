"""When to ask who has an address: often until somebody answers, now and then afterwards, so that a change is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.known import Neighbour, Observed
from controller.model import Address, Family, Site

NEXT_HOP_EVERY_S = 1.0  # nothing leaves by an uplink until its next hop has answered
TERMINAL_FIRST_S, TERMINAL_LAST_S = 1.0, 32.0  # an absent phone is not worth a broadcast a second
KNOWN_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Sought:
    """An address whose MAC is not in the file, or whose sign of life is waited for, and the address and MAC that ask
    for it."""

    where: Neighbour
    source: Address
    source_mac: str
    uplink: str | None  # whose next hop it is; None: it is a terminal's


def sought(site: Site, observed: Observed, doubted: frozenset[str]) -> Iterator[Sought]:
    for uplink in site.uplinks:
        for hop in uplink.next_hops:
            own = uplink.address(Family.of(hop.address))
            port = observed.ports.get(uplink.port)
            if own and port and (not hop.mac or uplink.name in doubted):
                yield Sought((uplink.port, hop.address), own.ip, uplink.mac or port.mac, uplink.name)
    for terminal in site.terminals:
        for place in terminal.addresses:
            subnet = site.subnet(place.subnet)
            own = subnet.gateway(Family.of(place.address))
            port = observed.ports.get(place.port)
            if own and port and not place.mac:
                yield Sought((place.port, place.address), own.ip, subnet.mac or port.mac, None)


def learnable(site: Site) -> frozenset[Neighbour]:
    """Every address whose MAC is not in the file."""
    hops = ((uplink.port, hop.address) for uplink in site.uplinks for hop in uplink.next_hops if not hop.mac)
    places = ((at.port, at.address) for terminal in site.terminals for at in terminal.addresses if not at.mac)
    return frozenset((*hops, *places))


class Schedule:
    """Remembers when each address was asked for, and asks again in time.

    What was learned over an earlier connection, or before something changed on the port, still counts as unheard.
    """

    def __init__(self) -> None:
        self._next: dict[Neighbour, float] = {}
        self._pause_s: dict[Neighbour, float] = {}
        self._heard: set[Neighbour] = set()
        self._doubted: frozenset[str] = frozenset()  # uplinks: their next hops are asked for as if they never answered

    def due(
        self, site: Site, observed: Observed, now: float, doubted: frozenset[str] = frozenset()
    ) -> Iterator[Sought]:
        for uplink in site.uplinks:
            if uplink.name in doubted - self._doubted:
                self.at_once(uplink.port)
        self._doubted = doubted
        for each in sought(site, observed, doubted):
            if observed.ports[each.where[0]].up and now >= self._next.get(each.where, now):
                self._next[each.where] = now + self._pause(each)
                yield each

    def heard(self, where: Neighbour) -> None:
        self._heard.add(where)
        self._pause_s.pop(where, None)

    def _pause(self, each: Sought) -> float:
        if each.where in self._heard and each.uplink not in self._doubted:
            return KNOWN_EVERY_S
        if each.uplink:
            return NEXT_HOP_EVERY_S
        pause = self._pause_s.get(each.where, TERMINAL_FIRST_S)
        self._pause_s[each.where] = min(2 * pause, TERMINAL_LAST_S)
        return pause

    def at_once(self, port: str) -> None:
        """Something changed on this port: whoever is behind it may be another now."""
        for where in [where for where in self._next if where[0] == port]:
            del self._next[where]
            self._pause_s.pop(where, None)
            self._heard.discard(where)
