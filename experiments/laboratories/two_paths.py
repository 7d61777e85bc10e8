# SPDX-License-Identifier: Apache-2.0
"""The laboratory with two paths that differ in delay, the controller on it, and the judge of whether a run counts."""

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
UPLINKS = {"wifi": "192.168.110.3", "lte": "192.168.210.3"}  # by name, the client's address there
BACKUP = "lte"
# A sender of today's kernels keeps up to 4 MB; what it has queued on one path stays there when another becomes active.
SHORT_QUEUE = "4096 16384 131072"
DEFAULT_QUEUE = "4096 16384 4194304"


@dataclass(frozen=True, slots=True)
class Controlled:
    """A stage with a client and a server, and the controller on it."""

    net: Stage
    controller: Controller

    @property
    def client(self) -> Machine:
        return self.net.machine("client")

    @property
    def server(self) -> Machine:
        return self.net.machine("server")

    def forget(self) -> None:
        """What TCP remembers of the runs before: a stream would begin with its ssthresh and its reordering."""
        for machine in (self.client, self.server):
            machine.run("ip", "tcp_metrics", "flush")


class Laboratory(Controlled):
    """Two paths that differ in delay."""

    def stalled(self) -> str:
        """Which links the machine has held up since this was last asked, and how long; empty: none.

        What was measured meanwhile counts not.
        """
        found = {name: self.net.uplink(name).lateness() for name in UPLINKS}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalled)

    def restore_endpoints(self) -> None:
        """The client's, as the topology made them: moving a connection under the kernel's path manager changes them."""
        self.client.run("ip", "mptcp", "endpoint", "flush")
        for number, (device, address) in enumerate(UPLINKS.items(), 1):
            flags = ("subflow", "backup") if device == BACKUP else ("subflow",)
            self.client.run("ip", "mptcp", "endpoint", "add", address, "dev", device, "id", str(number), *flags)

    def queue(self, limits: str) -> None:
        """How much each end's senders may keep, as net.ipv4.tcp_wmem."""
        for machine in (self.client, self.server):
            machine.run("sysctl", "--quiet", "--write", f"net.ipv4.tcp_wmem={limits}")


@contextmanager
def laboratory(logs: Path, settings: str = "", **shape: object) -> Iterator[Laboratory]:
    """Steady; `settings` go to the controller's part of gateway.yaml, `shape` to the topology."""
    with (
        controlled(FILE, settings) as controller,
        raised(SwitchingTopo(**shape), controller=OPENFLOW) as net,
        watched(ovs.needed(), logs),
    ):
        controller.await_steady()
        yield Laboratory(net, controller)
