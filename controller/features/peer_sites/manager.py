# SPDX-License-Identifier: Apache-2.0
"""Pairs of sites that share uplinks, and whether each site eliminates copies.

A site copies all packets of a terminal if the other site eliminates copies, and otherwise only packets that may arrive
twice (TCP).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from controller.features.peer_sites.elimination import Eliminator, Ports, Silence
from controller.features.peer_sites.tunnels import SiteTunnels
from controller.model.config import Config, Site
from controller.model.known import Neighbour, Wanted
from controller.policy.paths import arrivals
from controller.policy.paths.arrivals import Screen, screened, screening_answered
from controller.policy.paths.health import SilentUplink
from controller.protocol.orders import Direct, Eliminate, Tickets
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, Elimination, Reported, Resulted, Role

log = logging.getLogger(__name__)

NOTHING = Eliminate()
SilentUplinks = dict[str, SilentUplink] | None  # by uplink; None: neither end watches the uplinks
BELIEVED_S = 10.0  # after a start the stored state counts until agents reconnect: they eliminate without the controller


class PeerSites:
    def __init__(self, config: Config, once: frozenset[str], tickets: Tickets, now: float) -> None:
        """`once`: the sites that eliminated copies at the end of the last run."""
        self._tickets = tickets
        self._here: dict[int, Eliminator] = {}  # by session
        self.tunnels = SiteTunnels(tickets)
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

    def on_event(self, event: AgentEvent, wanted: Wanted, ports: Callable[[], Ports], now: float) -> None:
        self.tunnels.on_event(event)
        here = self._here.get(event.session)
        match event:
            case AgentOpened(role=Role.GATEWAY):
                self._here[event.session] = Eliminator(event)
            case AgentClosed():
                left = self._here.pop(event.session, None)
                if left is not None and self.eliminator(left.name) is None:
                    self._unidentified.pop(left.name, None)
            case Resulted() if here:
                here.resulted(event)
            case Reported() if here:
                here.reported(event.elimination, now)
                self._look(here, wanted, ports(), now)

    def _look(self, eliminator: Eliminator, wanted: Wanted, ports: Ports, now: float) -> None:
        sites = self.at(eliminator.session)
        if eliminator.last_report is None or sites is None:
            return
        here, there = sites
        self._silence.look(here, there, eliminator.last_report, here.name in self.once, wanted, ports, now)
        self._look_for_unidentified(here, eliminator.last_report, now)

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
        """Return the site of this agent, and its peer site."""
        eliminator = self._here.get(session)
        if eliminator is None or eliminator.name not in self._orders:
            return None
        here = next(site for site in self._config.sites if site.name == eliminator.name)
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
        yield from self.tunnels.tend(now)
        for each in self._here.values():
            order = self._orders.get(each.name, NOTHING)
            if each.is_due(order, now):
                directive = self._tickets.draw()
                each.ordered(order, directive, now)
                yield Direct(each.session, directive, order)

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

    def eliminator(self, name: str) -> Eliminator | None:
        """Return the agent that eliminates copies at a site; None: no agent is connected, or none is needed."""
        return next((each for each in self._here.values() if each.name == name and name in self._orders), None)

    def why_not(self, name: str) -> str:
        who = self.eliminator(name)
        return who.why_not() if who else f"no gateway agent enrolled as {name} is connected"

    def _fulfilled(self, name: str, order: Eliminate, now: float) -> bool:
        who = self.eliminator(name)
        if now < self._stored_until and name in self._stored and (who is None or who.is_new):
            return True
        return who is not None and who.fulfils(order, now)


def _out(screens: Mapping[str, Screen]) -> frozenset[str]:
    return frozenset(name for name, screen in screens.items() if not screen.on_trial)


def _order(site: Site) -> Eliminate:
    return Eliminate(
        paths=tuple((uplink.name, uplink.port, uplink.mac) for uplink in site.uplinks),
        numbered_ports=site.inside_ports,
        window_floor_ms=site.copies.floor_ms,
        window_ceiling_ms=site.copies.ceiling_ms,
    )
