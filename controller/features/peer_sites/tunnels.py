# SPDX-License-Identifier: Apache-2.0
"""The tunnels that each site's agent must create, and its reports of their other ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from controller.agents.order_slot import OrderSlot
from controller.model.config import Config, Site
from controller.protocol.enrolment import Vouched
from controller.protocol.orders import Direct, Tickets, TunnelOrder, Tunnels
from controller.protocol.reports import (
    TUNNELS,
    AgentClosed,
    AgentEvent,
    AgentOpened,
    Reported,
    Resulted,
    Role,
    TunnelEnd,
    Tunnelling,
)

log = logging.getLogger(__name__)

NOTHING = Tunnels()


class Tunneller:
    """One session of a site's agent."""

    def __init__(self, event: AgentOpened) -> None:
        self.name = event.name
        self.session = event.session
        self.last_report: Tunnelling | None = None
        self.standing = OrderSlot[Tunnels](event, TUNNELS)

    def is_due(self, order: Tunnels, now: float) -> bool:
        """Return whether the order must be sent, also if it is empty: tunnels survive a killed agent."""
        return self.standing.is_due(order, False, self._holds(order), now)

    def _holds(self, order: Tunnels) -> bool:
        ends = {end.name for end in self.last_report.ends} if self.last_report else set()
        return ends == {each.name for each in order.tunnels}


class SiteTunnels:
    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._here: dict[int, Tunneller] = {}  # by session
        self._config: Config | None = None
        self._vouched: Vouched = {}
        self._orders: dict[str, Tunnels] = {}  # by site
        self._down: dict[tuple[str, str], str] = {}  # by site and uplink: the reason, as last reported

    def reconfigure(self, config: Config) -> None:
        self._config = config
        self._draft()

    def vouch(self, vouched: Vouched) -> None:
        """Apply a new list of enrolled agents."""
        self._vouched = vouched
        self._draft()

    def _draft(self) -> None:
        sites = self._config.sites if self._config is not None else ()
        self._orders = {
            site.name: _order(site, self._certificates(site))
            for site in sites
            if any(each.tunnel for each in site.uplinks)
        }

    def _certificates(self, site: Site) -> tuple[bytes, ...]:
        """Return the hashes of both sites' certificates, in the same order at both ends."""
        names = sorted({site.name, site.other_end or site.name})
        found = (self._vouched.get(name) for name in names)
        return tuple(one.sha256 if one is not None and one.role is Role.GATEWAY else b"" for one in found)

    def on_event(self, event: AgentEvent) -> None:
        here = self._here.get(event.session)
        match event:
            case AgentOpened(role=Role.GATEWAY):
                self._here[event.session] = Tunneller(event)
            case AgentClosed():
                gone = self._here.pop(event.session, None)
                self._down = {at: why for at, why in self._down.items() if gone is None or at[0] != gone.name}
            case Resulted() if here:
                here.standing.resulted(event)
            case Reported() if here:
                here.last_report = event.tunnelling
                self._log(here)

    def tend(self, now: float) -> Iterator[Direct]:
        for each in self._here.values():
            order = self._orders.get(each.name, NOTHING)
            if each.is_due(order, now):
                directive = self._tickets.draw()
                each.standing.ordered(order, directive, now)
                yield Direct(each.session, directive, order)

    def report_of(self, site: Site) -> Tunnelling | None:
        """Return the last report of the site's agent, or None."""
        tunneller = self._at(site)
        return tunneller.last_report if tunneller else None

    def ends(self, site: Site) -> dict[str, TunnelEnd]:
        report, names = self.report_of(site), {uplink.name for uplink in site.uplinks if uplink.tunnel}
        return {end.name: end for end in report.ends if end.name in names} if report else {}

    def dead(self, site: Site) -> dict[str, str]:
        return {name: f"tunnel: {end.reason}" for name, end in self.ends(site).items() if end.reason}

    def why_not(self, site: Site, uplink: str) -> str | None:
        """Return why the tunnel is down; None: it is up and has contact with the other end."""
        end = self.ends(site).get(uplink)
        if end is not None:
            return end.reason or None
        tunneller = self._at(site)
        if tunneller is None:
            return f"no gateway agent enrolled as {site.name} is connected"
        return (
            tunneller.standing.unable
            or tunneller.standing.refused
            or (f"the agent {site.name} has not confirmed yet that it is up")
        )

    def _at(self, site: Site) -> Tunneller | None:
        return next((each for each in self._here.values() if each.name == site.name), None)

    def _log(self, tunneller: Tunneller) -> None:
        ordered = {each.name for each in self._orders.get(tunneller.name, NOTHING).tunnels}
        for end in tunneller.last_report.ends if tunneller.last_report else ():
            if end.name not in ordered:
                continue
            at = (tunneller.name, end.name)
            before = self._down.pop(at, "")
            if end.reason:
                self._down[at] = end.reason
            if end.reason and not before:
                log.warning("%s: the tunnel %s is down: %s", *at, end.reason)
            elif before and not end.reason:
                log.info("%s: the tunnel %s is up: the other end is at %s", *at, end.peer)


def _order(site: Site, certificates: tuple[bytes, ...]) -> Tunnels:
    return Tunnels(
        tunnels=tuple(
            TunnelOrder(
                name=uplink.name,
                port=uplink.port,
                vni=uplink.tunnel.vni,
                udp_port=uplink.tunnel.udp_port,
                device=uplink.tunnel.device,
                remote=str(uplink.tunnel.remote) if uplink.tunnel.remote else None,
                certificates=certificates,
            )
            for uplink in site.uplinks
            if uplink.tunnel
        ),
        fitted_ports=site.inside_ports,
        lan_ports=site.lan_ports,
    )
