# SPDX-License-Identifier: Apache-2.0
"""The tunnels that each site's agent must create, and its reports of their other ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from controller.agents.agent import Agent
from controller.agents.order_kinds import TUNNEL_ENDS
from controller.agents.registry import AgentRegistry
from controller.model.config import Config, Site
from controller.protocol.enrolment import Vouched
from controller.protocol.orders import Direct, TunnelOrder, Tunnels
from controller.protocol.reports import Role, TunnelEnd, Tunnelling

log = logging.getLogger(__name__)


class SiteTunnels:
    def __init__(self, agents: AgentRegistry) -> None:
        self._agents = agents
        self._config: Config | None = None
        self._vouched: Vouched = {}
        self._orders: dict[str, Tunnels] = {}  # by site
        self._down: dict[tuple[str, str], str] = {}  # by site and uplink: the reason, as last reported

    def reconfigure(self, config: Config) -> None:
        self._config = config
        for site in config.sites:
            for uplink in site.uplinks:
                if uplink.tunnel and uplink.tunnel.clear:
                    log.warning("%s: the tunnel %s is not encrypted (`encryption: none`)", site.name, uplink.name)
        self._draft()

    def vouch(self, vouched: Vouched) -> None:
        """Apply a new list of enrolled agents."""
        self._vouched = vouched
        self._draft()

    def _draft(self) -> None:
        sites = self._config.sites if self._config is not None else ()
        self._orders = {site.name: self._order(site) for site in sites if any(each.tunnel for each in site.uplinks)}

    def _keys(self, site: Site) -> tuple[bytes, ...]:
        """Return the hashes of both sites' public keys, in the same order at both ends."""
        names = sorted({site.name, site.other_end or site.name})
        found = (self._vouched.get(name) for name in names)
        return tuple(one.key_sha256 if one is not None and one.role is Role.GATEWAY else b"" for one in found)

    def _order(self, site: Site) -> Tunnels:
        keys, theirs = self._keys(site), self._tunnel_keys(site.other_end)
        return Tunnels(
            tunnels=tuple(
                TunnelOrder(
                    name=uplink.name,
                    port=uplink.port,
                    vni=uplink.tunnel.vni,
                    udp_port=uplink.tunnel.udp_port,
                    device=uplink.tunnel.device,
                    remote=str(uplink.tunnel.remote) if uplink.tunnel.remote else None,
                    clear=uplink.tunnel.clear,
                    peer_key=theirs[uplink.tunnel.number] if theirs else b"",
                    keys=keys,
                )
                for uplink in site.uplinks
                if uplink.tunnel
            ),
            fitted_ports=site.inside_ports,
            lan_ports=site.lan_ports,
        )

    def _tunnel_keys(self, site: str | None) -> tuple[bytes, ...]:
        one = self._vouched.get(site) if site is not None else None
        return one.tunnel_keys if one is not None and one.role is Role.GATEWAY else ()

    def on_closed(self, name: str) -> None:
        self._down = {at: why for at, why in self._down.items() if at[0] != name}

    def tend(self, agent: Agent, now: float) -> Iterator[Direct]:
        return agent.order(TUNNEL_ENDS, self._orders.get(agent.name, TUNNEL_ENDS.nothing), now)

    def report_of(self, site: Site) -> Tunnelling | None:
        """Return the last report of the site's agent about tunnels, or None."""
        agent = self._agents.gateway(site.name)
        return agent.report.tunnelling if agent is not None and agent.report is not None else None

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
        agent = self._agents.gateway(site.name)
        if agent is None:
            return f"no gateway agent enrolled as {site.name} is connected"
        slot = agent.slot(TUNNEL_ENDS)
        return slot.unable or slot.refused or f"the agent {site.name} has not confirmed yet that it is up"

    def on_report(self, name: str, report: Tunnelling | None) -> None:
        ordered = {each.name for each in self._orders.get(name, TUNNEL_ENDS.nothing).tunnels}
        for end in report.ends if report is not None else ():
            if end.name not in ordered:
                continue
            at = (name, end.name)
            before = self._down.pop(at, "")
            if end.reason:
                self._down[at] = end.reason
            if end.reason and not before:
                log.warning("%s: the tunnel %s is down: %s", *at, end.reason)
            elif before and not end.reason:
                log.info("%s: the tunnel %s is up: the other end is at %s", *at, end.peer)
