# SPDX-License-Identifier: Apache-2.0
"""Pairs of sites that share uplinks, and whether each site eliminates copies.

A site copies all packets of a terminal if the other site eliminates copies, and otherwise only packets that may arrive
twice (TCP).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from controller.agents.agent import Agent
from controller.agents.order_kinds import ELIMINATION
from controller.agents.registry import AgentRegistry
from controller.features.peer_sites.elimination import Ports, Silence, eliminates, may_still_eliminate, why_not
from controller.features.peer_sites.tunnels import SiteTunnels
from controller.model.config import Config, Site
from controller.model.in_force import InForce
from controller.model.observed import Neighbour
from controller.policy.paths import arrivals
from controller.policy.paths.arrivals import Screen, screened, screening_answered
from controller.policy.paths.health import SilentUplink
from controller.protocol.orders import CopyPath, Direct, Eliminate
from controller.protocol.reports import AgentClosed, AgentEvent, Elimination, Reported, Role

log = logging.getLogger(__name__)

SilentUplinks = dict[str, SilentUplink] | None  # by uplink; None: neither end watches the uplinks
BELIEVED_S = 10.0  # after a start the stored state counts until agents reconnect: they eliminate without the controller


class PeerSites:
    def __init__(self, config: Config, once: frozenset[str], agents: AgentRegistry, now: float) -> None:
        """`once`: the sites that eliminated copies at the end of the last run."""
        self._agents = agents
        self.tunnels = SiteTunnels(agents)
        self._silence = Silence()
        self._unidentified: dict[str, arrivals.UnidentifiedWindows] = {}  # by site
        self._silent: dict[str, SilentUplinks] = {}  # by site, as silence_changed() last yielded
        self._screens: dict[str, dict[str, Screen]] = {}  # by site and uplink
        self._out: dict[str, frozenset[str]] = {}  # by site: uplinks without copies, as screens() last yielded
        self._stored, self._stored_until = once, now + BELIEVED_S
        self.reconfigure(config)
        self.once = frozenset(name for name in once if name in self._orders)

    def reconfigure(self, config: Config) -> None:
        self._config = config
        self.tunnels.reconfigure(config)
        self._pairs = tuple((site, config.other_end(site)) for site in config.sites if site.peer_of is None)
        both = (site for site in config.sites if config.other_end(site) is not None)
        self._orders = {site.name: _order(site) for site in both if len(site.uplinks) > 1}

    # Agents

    def on_event(
        self, event: AgentEvent, agent: Agent, in_force: InForce, ports: Callable[[], Ports], now: float
    ) -> None:
        if agent.role is not Role.GATEWAY:
            return
        match event:
            case AgentClosed():
                self.tunnels.on_closed(agent.name)
                self._unidentified.pop(agent.name, None)
            case Reported(tunnelling=tunnelling, elimination=elimination):
                self.tunnels.on_report(agent.name, tunnelling)
                ends = self._ends(agent.name)
                if elimination is not None and ends is not None:
                    here, there = ends
                    self._silence.look(here, there, elimination, here.name in self.once, in_force, ports(), now)
                    self._look_for_unidentified(here, elimination, now)

    def _look_for_unidentified(self, here: Site, report: Elimination, now: float) -> None:
        names = {uplink.name for uplink in here.uplinks}
        paths = {path.name: path for path in report.paths if path.name in names}
        before = self.unidentified(here)
        self._unidentified[here.name] = arrivals.unidentified_after(self._unidentified.get(here.name, {}), paths, now)
        after = self.unidentified(here)
        for name in after.keys() - before.keys():
            log.warning("%s: %s: %s", here.name, name, after[name])
        for name in before.keys() - after.keys():
            log.info("%s: %s: copies are identified again", here.name, name)

    def at(self, session: int) -> tuple[Site, Site] | None:
        """Return the site of this agent and its peer site, if copies can arrive there."""
        agent = self._agents.of(session)
        return self._ends(agent.name) if agent is not None and agent.role is Role.GATEWAY else None

    def _ends(self, name: str) -> tuple[Site, Site] | None:
        if name not in self._orders:
            return None
        here = next(site for site in self._config.sites if site.name == name)
        there = self._config.other_end(here)
        assert there is not None  # it has an order
        return here, there

    def silent(self, *sites: Site) -> dict[str, str]:
        """Return the uplinks that deliver no copies while others do, with the reasons."""
        return {
            name: why for site in sites if site.name in self.once for name, why in self._silence.at(site.name).items()
        }

    def unidentified(self, site: Site) -> dict[str, str]:
        uplinks = self._unidentified.get(site.name, {})
        return {name: one.reason for name, one in uplinks.items() if one.reason is not None}

    def _dead(self, *sites: Site) -> dict[str, SilentUplink]:
        return {
            name: SilentUplink(why, end.name)  # a site's agent has its name
            for reports in (self.silent, self.tunnels.dead)
            for end in sites
            for name, why in reports(end).items()
        }

    def silence_changed(self, seen: Callable[[Site], Mapping[str, str] | None]) -> Iterator[tuple[Site, SilentUplinks]]:
        """Yield the sites whose set of silent uplinks changed at either end since the last call.

        None: neither end watches the uplinks. `seen` returns the uplinks that an end's switch found dead.
        """
        for site, other in self._pairs:
            ends = (site, other) if other is not None else (site,)
            of_switches = [found for end in ends if (found := seen(end)) is not None]
            watched = bool(of_switches) or any(end.name in self.once or self.tunnels.ends(end) for end in ends)
            dead = {name: SilentUplink(why, None) for each in of_switches for name, why in each.items()}
            dead |= self._dead(*ends)
            silent = dead if watched else None
            before = self._silent.get(site.name)
            if (silent is None) != (before is None) or (silent or {}).keys() != (before or {}).keys():
                self._silent[site.name] = silent
                yield site, silent

    def screens(self, now: float) -> Iterator[tuple[int, frozenset[str]]]:
        """Yield changed sets of uplinks without copies, for both ends by dpid."""
        for site, other in self._pairs:
            silent = self._silent.get(site.name) or {}
            before = self._screens.get(site.name, {})
            after = {name: screened(before.get(name), name in silent, now) for name in before.keys() | silent.keys()}
            self._screens[site.name] = {name: screen for name, screen in after.items() if screen is not None}
            out = _out(self._screens[site.name])
            if out != self._out.get(site.name, frozenset()):
                self._out[site.name] = out
                log.info("%s: uplinks that get no copies: %s", site.name, ", ".join(sorted(out)) or "none")
                yield from ((end.dpid, out) for end in (site, other) if end is not None)

    def neighbour_seen(self, site: Site, where: Neighbour, mac: str, now: float) -> None:
        """Try a screened uplink when its next hop answers with its configured MAC."""
        screens = self._screens_of(site)
        for uplink in site.uplinks if screens else ():
            ours = ((uplink.port, hop.address) for hop in uplink.next_hops if hop.mac in (None, mac))
            if uplink.name in screens and where in ours:
                screens[uplink.name] = screening_answered(screens[uplink.name], now)

    def _screens_of(self, end: Site) -> dict[str, Screen]:
        """Return the screens of the end's pair of sites. Both ends share them."""
        found = (site for site, other in self._pairs if end.name in (site.name, other.name if other else None))
        return next((self._screens.get(site.name, {}) for site in found), {})

    def tend(self, now: float) -> Iterator[Direct]:
        for agent in self._agents.of_roles(Role.GATEWAY):
            yield from self.tunnels.tend(agent, now)
            yield from agent.order(ELIMINATION, self._orders.get(agent.name, ELIMINATION.nothing), now)

    # Elimination by site

    def changed(self, now: float) -> bool:
        """Return whether the set of sites that eliminate copies changed since the last call."""
        once = frozenset(name for name, order in self._orders.items() if self._fulfilled(name, order, now))
        for name in once ^ self.once:
            does = f"has stopped: {self.why_not(name)}" if name in self.once else "has started"
            log.info("%s: elimination of duplicate packets %s", name, does)
        before, self.once = self.once, once
        return once != before

    def may_eliminate(self, site: Site) -> bool:
        """Return whether copies can arrive at the site: it has a peer site and several uplinks."""
        return site.name in self._orders

    def as_copied(self, site: Site) -> Site:
        other = self._config.other_end(site)
        return replace(site, bicast=site.bicast_once) if other is not None and other.name in self.once else site

    def eliminates(self, name: str) -> bool:
        return name in self.once

    def report_of(self, site: Site) -> Elimination | None:
        """Return the last report of the site's agent about copies, or None."""
        agent = self._agents.gateway(site.name)
        return agent.report.elimination if agent is not None and agent.report is not None else None

    def why_not(self, name: str) -> str:
        agent = self._agents.gateway(name)
        return why_not(agent) if agent is not None else f"no gateway agent enrolled as {name} is connected"

    def _fulfilled(self, name: str, order: Eliminate, now: float) -> bool:
        agent = self._agents.gateway(name)
        if now < self._stored_until and name in self._stored and (agent is None or may_still_eliminate(agent)):
            return True
        return agent is not None and eliminates(agent, order, now)


def _out(screens: Mapping[str, Screen]) -> frozenset[str]:
    return frozenset(name for name, screen in screens.items() if not screen.on_trial)


def _order(site: Site) -> Eliminate:
    return Eliminate(
        paths=tuple(CopyPath(uplink.name, uplink.port, uplink.mac) for uplink in site.uplinks),
        numbered_ports=site.inside_ports,
        window_floor_ms=site.copies.floor_ms,
        window_ceiling_ms=site.copies.ceiling_ms,
    )
