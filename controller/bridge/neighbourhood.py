"""Those around one switch whose MACs are not in the file: when each is asked for, and whether what is told of one
counts yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.bridge.learning import Learning
from controller.bridge.neighbours import Schedule, learnable
from controller.events import Ask
from controller.known import Neighbour, Observed
from controller.model import Site


class Neighbourhood:
    def __init__(self, site: Site) -> None:
        self._schedule, self._learning = Schedule(), Learning()
        self.reconfigure(site)

    def reconfigure(self, site: Site) -> None:
        self._site, self._learnable = site, learnable(site)

    def opened(self) -> None:
        """Over a new connection nobody has answered."""
        self._schedule = Schedule()

    def port_changed(self, port: str) -> None:
        self._schedule.at_once(port)

    def told(self, where: Neighbour, mac: str, known: str | None, now: float) -> bool:
        """Whether `mac` takes the place of the known one now; if not, it may be due later."""
        if where not in self._learnable:
            return False
        self._schedule.heard(where)
        return self._learning.told(where, mac, known, now)

    def due(self, now: float) -> Mapping[Neighbour, str]:
        """It is for the caller to take."""
        return self._learning.due(now)

    def asked(self, session: int, observed: Observed, doubted: frozenset[str], now: float) -> Iterator[Ask]:
        for each in self._schedule.due(self._site, observed, now, doubted):
            name, address = each.where
            yield Ask(session, observed.ports[name].number, each.source_mac, each.source, address)
