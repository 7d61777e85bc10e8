"""The twin laboratory with an agent at each site: of all copies the first passes. Its paths lose what is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments import ExperimentFailed
from experiments.live.agents import SETTINGS, TERMINAL, eliminating
from experiments.pinning import pin_mode
from experiments.running import OPENFLOW, TREE, Controller, controlled
from topologies import command, ovs
from topologies.nodes import Machine
from topologies.paper import SERVER
from topologies.stage import Stage, raised
from topologies.twin import RATES_BPS, TwinTopo
from topologies.watch import watched

FILE = TREE / "topologies" / "twin.yaml"
SITES = ("home", "far")
CLIENT = "192.168.110.3"
ACTIVE = "wifi"
WITHIN_S = 20.0
TOLD_S = 2.5  # within which a dead path is named


@dataclass(frozen=True, slots=True)
class Laboratory:
    net: Stage
    controller: Controller
    emulated: bool

    @property
    def client(self) -> Machine:
        return self.net.machine("client")

    @property
    def server(self) -> Machine:
        return self.net.machine("server")

    def pin(self, mode: str) -> None:
        """In force when this returns, in the switches' caches, too. What rides one path alone rides Wi-Fi."""
        self.controller.client.set_active(TERMINAL, ACTIVE)
        pin_mode(self.controller.client, mode)
        command.run("ovs-appctl", "revalidator/wait")

    def lose(self, **percent: float) -> None:
        """Each of these paths from now on, each way."""
        for name, each in percent.items():
            link = self.net.uplink(name)
            for way in (link.forward, link.backward):
                way.set(loss_percent=each)

    def recover(self) -> None:
        """Until no path is taken to be dead any more: one that brought no copies gets none for a while."""
        self.lose(wifi=0, lte=0)
        deadline = time.monotonic() + WITHIN_S
        while True:
            self.client.run("ping", "-q", "-c", str(round(TOLD_S / 0.05)), "-i", "0.05", "-I", CLIENT, SERVER)
            silent = [
                each for one in self.controller.client.get("status")["gateways"] for each in one["copies"]["silent"]
            ]
            if not silent:
                return
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"{WITHIN_S:.0f} s after Wi-Fi was healed it is still so: {silent}")

    def stalled(self) -> str:
        """Which emulated links the machine has held up since this was last asked; the kernel's own do not tell."""
        found = {name: self.net.uplink(name).lateness() for name in RATES_BPS} if self.emulated else {}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalled)


@contextmanager
def laboratory(logs: Path, **slower: float) -> Iterator[Laboratory]:
    """Everything is copied, and comes once. `slower` goes to the topology."""
    with (
        controlled(FILE, SETTINGS) as controller,
        raised(TwinTopo(**slower), controller=OPENFLOW) as net,
        watched(ovs.needed(), logs),
    ):
        controller.await_steady()
        lab = Laboratory(net, controller, emulated=bool(slower))
        _await_found(lab)
        with eliminating(controller, *SITES):
            yield lab


def _await_found(lab: Laboratory) -> None:
    """Until the sites know each other's MACs."""
    deadline = time.monotonic() + WITHIN_S
    while lab.client.run("ping", "-c", "1", "-W", "1", "-I", CLIENT, SERVER, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{SERVER} does not answer {CLIENT} within {WITHIN_S:.0f} s of a clean laboratory")
