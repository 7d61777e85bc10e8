# SPDX-License-Identifier: Apache-2.0
"""Elimination of copies by a site's agent, and the uplinks without incoming copies there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from controller.agents.agent import Agent
from controller.agents.order_kinds import ELIMINATION
from controller.model.config import Site
from controller.model.in_force import InForce
from controller.model.observed import Port
from controller.model.redundancy import PacketUplinks
from controller.policy.paths import arrivals
from controller.protocol.orders import Eliminate
from controller.protocol.reports import Elimination

log = logging.getLogger(__name__)

SILENT_AFTER_S = 2.5  # without a report; the agent's programs pass everything 3 s after their last renewal


def eliminates(agent: Agent, order: Eliminate, now: float) -> bool:
    """Return whether a recent report shows a program at each port of the order."""
    if agent.report is None or not ELIMINATION.shows(order, agent.report):
        return False
    return not order.paths or agent.reported_within(SILENT_AFTER_S, now)


def may_still_eliminate(agent: Agent) -> bool:
    """Return whether the agent has just connected: its programs may have passed only first copies all the time."""
    return agent.report is None and agent.slot(ELIMINATION).refused is None


def why_not(agent: Agent) -> str:
    slot = agent.slot(ELIMINATION)
    unwilling = slot.unable or slot.refused
    if unwilling:
        return unwilling
    found = agent.report.elimination if agent.report is not None else None
    if found is not None and found.missing:
        port, reason = found.missing[0]
        return f"{port}: {reason}"
    return f"the agent {agent.name} has not confirmed recently that it eliminates copies"


Ports = Mapping[int, Mapping[str, Port]]  # by dpid, as each switch reports them


class Silence:
    def __init__(self) -> None:
        self._sites: dict[str, arrivals.SiteArrivals] = {}

    def at(self, site: str) -> dict[str, str]:
        return self._sites[site].silent if site in self._sites else {}

    def look(
        self, here: Site, there: Site, report: Elimination, once: bool, in_force: InForce, ports: Ports, now: float
    ) -> None:
        """Use a report. `once`: copies are eliminated here."""
        up = set(_up_at_both(here, there, ports))
        up -= in_force.decisions.barred.get(here.home, frozenset())  # these uplinks carry no copies on purpose
        brought = {path.name: path.arrived for path in report.paths if path.name in up}
        whole = once and _copies_all(here, there, in_force)
        before = self.at(here.name)
        self._sites[here.name] = arrivals.silence_after(
            self._sites.get(here.name, arrivals.SiteArrivals()), brought, whole, now
        )
        after = self.at(here.name)
        for name in after.keys() - before.keys():
            log.warning("%s: %s: %s", here.name, name, after[name])
        for name in before.keys() - after.keys():
            log.info("%s: %s is no longer considered silent", here.name, name)


def _copies_all(here: Site, there: Site, in_force: InForce) -> bool:
    home = here if here.peer_of is None else there  # a mode is for both directions
    all_its = (its for each in home.terminals for its in in_force.of_classes(home, each, home.named))
    return not there.bicast_once.protocols and all(its.sent_over is PacketUplinks.EVERY for its in all_its)


def _up_at_both(here: Site, there: Site, ports: Ports) -> Iterator[str]:
    """Yield the uplinks whose ports are up at both ends. A port that is down needs no evidence from copies."""
    for uplink in here.uplinks:
        ends = ((here, uplink.port), (there, there.uplink(uplink.name).port))
        seen = [ports.get(site.dpid, {}).get(port) for site, port in ends]
        if all(port is not None and port.up for port in seen):
            yield uplink.name
