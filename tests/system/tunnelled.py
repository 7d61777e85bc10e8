# SPDX-License-Identifier: Apache-2.0
"""The two sites of natted.py with a real agent at each, and queries of the agents and their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.processes.agents import SETTINGS_FOR_HOSTS, AgentProcess, eliminating, hosts
from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage.stage import raised
from tests.system.conftest import GatewayLab
from tests.system.evidence import reaches, until
from topologies.natted import OUTER, NattedTopo
from topologies.paper import SERVER

NATTED = TREE / "topologies" / "natted.yaml"
CLIENT, BY_LTE = "192.168.110.3", "192.168.210.3"
SITES = ("home", "far")
FULL = 1370  # bytes of an IP packet in a tunnel through 1500


@dataclass(frozen=True)
class TunnelLab(GatewayLab):
    agents: Mapping[str, AgentProcess]

    def gateway(self, site: str) -> dict[str, Any]:
        gateways: list[dict[str, Any]] = self.controller.client.get("status")["gateways"]
        return next(one for one in gateways if one["name"] == site)

    def tunnel(self, site: str, uplink: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.gateway(site)["uplinks"] if one["name"] == uplink)["tunnel"]
        return found

    def await_up(self) -> None:
        """Wait until all tunnels are up at both ends and measured to the full size of the underlay."""
        for site in SITES:
            until(lambda site=site: self._stand(site), f"{site}'s tunnels stand")
            until(lambda site=site: self.largest(site) == FULL, f"{site}'s tunnels are measured")

    def _stand(self, site: str) -> bool:
        return all(self.tunnel(site, name)["up"] for name in OUTER)

    def largest(self, site: str) -> int | None:
        fitting = self.gateway(site)["fitting"]
        return None if fitting is None else fitting["largest_bytes"]

    def peer(self, uplink: str) -> str:
        """Return where the far site sends packets of this uplink: ADDRESS:PORT, or empty."""
        end = self.tunnel("far", uplink)["end"]
        return "" if end is None else str(end["peer"])


@contextmanager
def tunnelling(place: Path) -> Iterator[TunnelLab]:
    """Run the two sites with their agents during the block."""
    with (
        controlled(NATTED, SETTINGS_FOR_HOSTS, directory=place) as controller,
        raised(NattedTopo(shaped=False), controller=OPENFLOW) as net,
    ):
        controller.await_steady()
        with ruled(GatewayLab(net, controller)) as both:
            yield both


@contextmanager
def ruled(natted: GatewayLab) -> Iterator[TunnelLab]:
    """Run an agent at each site, and yield when all packets use both tunnels and arrive once."""
    net, controller = natted.net, natted.controller
    with eliminating(controller, *SITES, hosts=hosts(net)) as agents:
        both = TunnelLab(net, controller, agents)
        both.returns_soon()
        both.await_up()
        for source in (CLIENT, BY_LTE):
            until(lambda own=source: reaches(net.machine("client"), own, SERVER), f"{source} is found")
        both.await_in_force()
        yield both
