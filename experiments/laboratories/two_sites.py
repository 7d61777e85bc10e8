# SPDX-License-Identifier: Apache-2.0
"""Two sites with agents that eliminate copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mininet.topo import Topo

from controller.edges.config import load
from controller.model.config import Site
from experiments.laboratories.two_paths import Controlled
from lab.processes.agents import NO_HOSTS, SETTINGS, SETTINGS_FOR_HOSTS, TERMINAL, eliminating, hosts
from lab.processes.controller import LOOK_EVERY_S, OPENFLOW, TREE, controlled, pin_mode
from lab.stage import command, ovs
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import raised
from lab.stage.watch import watched
from topologies.natted import NattedTopo
from topologies.paper import SERVER
from topologies.twin import RATES_BPS, TwinTopo

CLIENT = "192.168.110.3"
ACTIVE = "wifi"
WITHIN_S = 20.0
TOLD_S = 2.5  # until a dead path is reported
UNCHANGED: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ground:
    """Two sites and the network between them."""

    file: Path  # gateway.yaml
    topo: Callable[..., Topo]
    tunnelled: bool = False  # by agents in hosts of their own


TWIN = Ground(TREE / "topologies" / "twin.yaml", TwinTopo)
NATTED = Ground(TREE / "topologies" / "natted.yaml", NattedTopo, tunnelled=True)


@dataclass(frozen=True, slots=True)
class Laboratory(Controlled):
    sites: tuple[Site, ...]
    emulated: bool

    def pin(self, mode: str) -> None:
        """Override the mode, with Wi-Fi as the active uplink, and wait until the switches' caches agree."""
        self.controller.client.set_active(TERMINAL, ACTIVE)
        pin_mode(self.controller.client, mode)
        command.run("ovs-appctl", "revalidator/wait")

    def lose(self, **percent: float) -> None:
        """Set the loss of these paths, each way."""
        for name, each in percent.items():
            link = self.net.uplink(name)
            for way in (link.forward, link.backward):
                way.set(loss_percent=each)

    def recover(self) -> None:
        """Wait until no path counts as dead: a path that brought no copies, or whose tunnel was down, gets none for a
        while.
        """
        self.lose(wifi=0, lte=0)
        deadline = time.monotonic() + WITHIN_S
        while True:
            self.client.run("ping", "-q", "-c", str(round(TOLD_S / 0.05)), "-i", "0.05", "-I", CLIENT, SERVER)
            silent = [each for one in self._gateways() for each in one["copies"]["silent"]]
            shunned = [site.name for site in self.sites if not sends(site)]
            if not silent and not shunned:
                break
            if time.monotonic() > deadline:
                told = f"silent: {silent}; sites that send nothing over it: {shunned}"
                raise ExperimentFailed(f"Wi-Fi is still unused {WITHIN_S:.0f} s after it was restored: {told}")
        self.await_tunnels()

    def await_tunnels(self) -> None:
        deadline = time.monotonic() + WITHIN_S
        while waiting := [each for each in self._tunnels() if not each["up"] or not each["end"]["mtu_bytes"]]:
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"tunnels not up or without an MTU after {WITHIN_S:.0f} s: {waiting}")
            time.sleep(LOOK_EVERY_S)

    def largest_bytes(self) -> int:
        """Return the largest IP packet that fits through every tunnel, both ways."""
        return min(int(each["end"]["mtu_bytes"]) for each in self._tunnels())

    def peer(self, site: str, uplink: str) -> str:
        """Return where a site's agent sees the other end of a tunnel: ADDRESS:PORT, or empty."""
        uplinks = next(one["uplinks"] for one in self._gateways() if one["name"] == site)
        end = next(one["tunnel"]["end"] for one in uplinks if one["name"] == uplink)
        return "" if end is None else str(end["peer"])

    def _tunnels(self) -> list[dict[str, Any]]:
        uplinks = (uplink for one in self._gateways() for uplink in one["uplinks"])
        return [uplink["tunnel"] for uplink in uplinks if uplink["tunnel"] is not None]

    def _gateways(self) -> list[dict[str, Any]]:
        gateways: list[dict[str, Any]] = self.controller.client.get("status")["gateways"]
        return gateways

    def stalled(self) -> str:
        """Return the emulated links stalled since the previous call; kernel links cannot tell."""
        found = {name: self.net.uplink(name).lateness() for name in RATES_BPS} if self.emulated else {}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalled)


@contextmanager
def laboratory(
    ground: Ground, logs: Path, *, eliminated: bool = True, slower: Mapping[str, float] = UNCHANGED
) -> Iterator[Laboratory]:
    """Run two sites. With `eliminated` all packets are copied and arrive once, else only TCP is, and arrives twice.

    `slower` goes to the topology.
    """
    with (
        controlled(ground.file, SETTINGS_FOR_HOSTS if ground.tunnelled else SETTINGS) as controller,
        raised(ground.topo(**slower), controller=OPENFLOW) as net,
        watched(ovs.needed(), logs),
        ExitStack() as agents,
    ):
        controller.await_steady()
        lab = Laboratory(net, controller, load.load(str(controller.file)).sites, emulated=bool(slower))
        if eliminated:
            at = hosts(net) if ground.tunnelled else NO_HOSTS
            agents.enter_context(eliminating(controller, *(site.name for site in lab.sites), hosts=at))
        lab.await_tunnels()
        _await_found(lab)
        yield lab


def sends(site: Site) -> bool:
    port = site.uplink(ACTIVE).port
    return f"output:{port}" in ovs.ofctl("dump-groups", "--names", site.bridge).replace('"', "")


def _await_found(lab: Laboratory) -> None:
    deadline = time.monotonic() + WITHIN_S
    while lab.client.run("ping", "-c", "1", "-W", "1", "-I", CLIENT, SERVER, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{SERVER} did not answer {CLIENT} within {WITHIN_S:.0f} s over clean paths")
