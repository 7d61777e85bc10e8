# SPDX-License-Identifier: Apache-2.0
"""The agent that eliminates copies at a site, and the uplinks without incoming copies there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import chain

from controller.agents.order_slot import OrderSlot
from controller.model.config import Mode, Site
from controller.model.known import Port, Wanted
from controller.policy.paths import arrivals
from controller.protocol.orders import Eliminate
from controller.protocol.reports import ELIMINATES, AgentOpened, Elimination, Resulted

log = logging.getLogger(__name__)

SILENT_AFTER_S = 2.5  # without a report; the agent's programs pass everything 3 s after their last renewal


class Eliminator:
    """One session of an agent. Its order holds while reports show a program at each port."""

    def __init__(self, event: AgentOpened) -> None:
        self.name = event.name
        self.session = event.session
        self.last_report: Elimination | None = None
        self._standing = OrderSlot[Eliminate](event, ELIMINATES)
        self._reported_at: float | None = None

    @property
    def is_new(self) -> bool:
        return self._reported_at is None and self._standing.refused is None

    def is_due(self, order: Eliminate, now: float) -> bool:
        idle = not order.paths and self.last_report is None
        return self._standing.is_due(order, idle, self.fulfils(order, now), now)

    def ordered(self, order: Eliminate, directive: int, now: float) -> None:
        self._standing.ordered(order, directive, now)

    def resulted(self, event: Resulted) -> None:
        self._standing.resulted(event)

    def reported(self, report: Elimination | None, now: float) -> None:
        self.last_report, self._reported_at = report, now

    def fulfils(self, order: Eliminate, now: float) -> bool:
        if self.last_report is None:
            return not order.paths
        wholly = not self.last_report.missing and _names(self.last_report) == {name for name, _, _ in order.paths}
        return wholly and self._reports_recently(now)

    def why_not(self) -> str:
        unwilling = self._standing.unable or self._standing.refused
        if unwilling:
            return unwilling
        if self.last_report is not None and self.last_report.missing:
            port, reason = self.last_report.missing[0]
            return f"{port}: {reason}"
        return f"the agent {self.name} has not confirmed recently that it eliminates copies"

    def _reports_recently(self, now: float) -> bool:
        return self._reported_at is not None and now - self._reported_at <= SILENT_AFTER_S


def _names(report: Elimination) -> set[str]:
    return {path.name for path in report.paths}


Ports = Mapping[int, Mapping[str, Port]]  # by dpid, as each switch reports them


class Silence:
    def __init__(self) -> None:
        self._sites: dict[str, arrivals.SiteArrivals] = {}

    def at(self, site: str) -> dict[str, str]:
        return self._sites[site].silent if site in self._sites else {}

    def look(
        self, here: Site, there: Site, report: Elimination, once: bool, wanted: Wanted, ports: Ports, now: float
    ) -> None:
        """Use a report. `once`: copies are eliminated here."""
        up = set(_up_at_both(here, there, ports))
        up -= wanted.barred.get(here.home, frozenset())  # these uplinks carry no copies on purpose
        brought = {path.name: path.arrived for path in report.paths if path.name in up}
        whole = once and _copies_all(here, there, wanted)
        before = self.at(here.name)
        self._sites[here.name] = arrivals.silence_after(
            self._sites.get(here.name, arrivals.SiteArrivals()), brought, whole, now
        )
        after = self.at(here.name)
        for name in after.keys() - before.keys():
            log.warning("%s: %s: %s", here.name, name, after[name])
        for name in before.keys() - after.keys():
            log.info("%s: %s is no longer considered silent", here.name, name)


def _copies_all(here: Site, there: Site, wanted: Wanted) -> bool:
    home = here if here.peer_of is None else there  # a mode is for both directions
    modes = (wanted.acting(home, each) for each in home.terminals)
    of_classes = (wanted.acting_of(home, each, traffic.name) for each in home.terminals for traffic in home.named)
    return not there.bicast_once.protocols and all(mode is Mode.BICAST for mode in chain(modes, of_classes))


def _up_at_both(here: Site, there: Site, ports: Ports) -> Iterator[str]:
    """Yield the uplinks whose ports are up at both ends. A port that is down needs no evidence from copies."""
    for uplink in here.uplinks:
        ends = ((here, uplink.port), (there, there.uplink(uplink.name).port))
        seen = [ports.get(site.dpid, {}).get(port) for site, port in ends]
        if all(port is not None and port.up for port in seen):
            yield uplink.name
