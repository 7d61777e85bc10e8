# SPDX-License-Identifier: Apache-2.0
"""A laboratory with two paths of different delay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.processes.controller import OPENFLOW, TREE, Controller, controlled
from lab.stage import ovs
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from topologies.switching import SwitchingTopo

FILE = TREE / "topologies" / "paper.yaml"
UPLINKS = {"wifi": "192.168.110.3", "lte": "192.168.210.3"}  # client's address by uplink
BACKUP = "lte"
# By default a sender buffers up to 4 MB. Data queued on one path stays there.
SHORT_QUEUE = "4096 16384 131072"
DEFAULT_QUEUE = "4096 16384 4194304"


@dataclass(frozen=True, slots=True)
class Controlled:
    net: Stage
    controller: Controller

    @property
    def client(self) -> Machine:
        return self.net.machine("client")

    @property
    def server(self) -> Machine:
        return self.net.machine("server")

    def forget(self) -> None:
        """Drop TCP's cached metrics: a stream would start with an earlier run's ssthresh and reordering."""
        for machine in (self.client, self.server):
            machine.run("ip", "tcp_metrics", "flush")


class Laboratory(Controlled):
    def stalled(self, late_share: float = 0) -> str:
        """Return links with more late packets than this share since the previous call."""
        found = {name: self.net.uplink(name).lateness() for name in UPLINKS}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalls > late_share * late.packets)

    def restore_endpoints(self) -> None:
        """Restore the client's endpoints, which moves under the kernel's path manager change."""
        self.client.run("ip", "mptcp", "endpoint", "flush")
        for number, (device, address) in enumerate(UPLINKS.items(), 1):
            flags = ("subflow", "backup") if device == BACKUP else ("subflow",)
            self.client.run("ip", "mptcp", "endpoint", "add", address, "dev", device, "id", str(number), *flags)

    def queue(self, limits: str) -> None:
        """Set how much each end's sockets may buffer, as net.ipv4.tcp_wmem."""
        for machine in (self.client, self.server):
            machine.run("sysctl", "--quiet", "--write", f"net.ipv4.tcp_wmem={limits}")


@contextmanager
def laboratory(logs: Path, settings: str = "", **shape: object) -> Iterator[Laboratory]:
    """Run the laboratory until it is steady; `settings` extend the controller's, `shape` goes to the topology."""
    with (
        controlled(FILE, settings) as controller,
        raised(SwitchingTopo(**shape), controller=OPENFLOW) as net,
        watched(ovs.needed(), logs),
    ):
        controller.await_steady()
        yield Laboratory(net, controller)
