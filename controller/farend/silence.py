"""Which uplinks have fallen silent, at each site where copies come in; policy/latent.py says what that is."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import chain

from controller.known import Port, Wanted
from controller.model import Mode, Site
from controller.policy import latent
from controller.reports import Elimination

log = logging.getLogger(__name__)

Ports = Mapping[int, Mapping[str, Port]]  # by dpid, as each switch shows them


class Silence:
    def __init__(self) -> None:
        self._sites: dict[str, latent.Site] = {}

    def at(self, site: str) -> dict[str, str]:
        return self._sites[site].silent if site in self._sites else {}

    def look(
        self, here: Site, there: Site, told: Elimination, once: bool, wanted: Wanted, ports: Ports, now: float
    ) -> None:
        """`once`: one copy of each packet passes here."""
        up = set(_up_at_both(here, there, ports))
        up -= wanted.barred.get(here.home, frozenset())  # that one brings none is as it should be
        brought = {path.name: path.arrived for path in told.paths if path.name in up}
        whole = once and _copies_all(here, there, wanted)
        before = self.at(here.name)
        self._sites[here.name] = latent.reported(self._sites.get(here.name, latent.Site()), brought, whole, now)
        after = self.at(here.name)
        for name in after.keys() - before.keys():
            log.warning("%s: %s: %s", here.name, name, after[name])
        for name in before.keys() - after.keys():
            log.info("%s: %s is not taken to be silent any more", here.name, name)


def _copies_all(here: Site, there: Site, wanted: Wanted) -> bool:
    """Whether all that comes to `here` by the uplinks comes by each of them."""
    home = here if here.mirrors is None else there  # a mode is of both directions
    modes = (wanted.acting(home, each) for each in home.terminals)
    of_classes = (wanted.acting_of(home, each, traffic.name) for each in home.terminals for traffic in home.named)
    return not there.bicast_once.protocols and all(mode is Mode.BICAST for mode in chain(modes, of_classes))


def _up_at_both(here: Site, there: Site, ports: Ports) -> Iterator[str]:
    """Of a port that is down it is known anyway."""
    for uplink in here.uplinks:
        ends = ((here, uplink.port), (there, there.uplink(uplink.name).port))
        seen = [ports.get(site.dpid, {}).get(port) for site, port in ends]
        if all(port is not None and port.up for port in seen):
            yield uplink.name
