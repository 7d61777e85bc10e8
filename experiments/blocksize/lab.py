"""One to three terminals at the access point of topologies/access_point.py, and the server that is 64 ms away.

What they send waits in one queue for an air that they share with what comes back. The controller forwards; it has no
agents and its rule is off: what is measured is what writes do. There is no MPTCP either.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage import ovs
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from topologies.access_point import AIR_BPS, SERVERS, TERMINALS, AccessPointTopo

FILE = TREE / "topologies" / "access_point.yaml"
FAR = "s64"  # 64 ms there and back
SERVER = SERVERS[FAR]
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
GOODPUT_BPS = AIR_BPS * PAYLOAD_BYTES / FRAME_BYTES  # that the air lets through, but for acknowledgements
WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Laboratory:
    net: Stage
    most: int  # terminals

    @property
    def server(self) -> Machine:
        return self.net.machine(FAR)

    def terminals(self, count: int) -> list[Machine]:
        return [self.net.machine(name) for name in TERMINALS[:count]]

    def forget(self) -> None:
        """What TCP remembers of uploads before."""
        for machine in (self.server, *self.terminals(self.most)):
            machine.run("ip", "tcp_metrics", "flush")

    def stalled(self) -> str:
        """Which links the machine has held up since this was last asked; empty: none."""
        found = {name: self.net.uplink(name).lateness() for name in ("air", FAR)}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalled)


@contextmanager
def laboratory(terminals: int, logs: Path) -> Iterator[Laboratory]:
    with (
        controlled(FILE) as controller,
        raised(AccessPointTopo(terminals=terminals), controller=OPENFLOW) as net,
        watched((controller.needed(), *ovs.needed()), logs),
    ):
        controller.await_steady()
        lab = Laboratory(net, terminals)
        for machine in lab.terminals(terminals):
            _await_reached(machine)
        yield lab


def _await_reached(terminal: Machine) -> None:
    """Until the gateway knows its MAC, and it the gateway's."""
    deadline = time.monotonic() + WITHIN_S
    while terminal.run("ping", "-c", "1", "-W", "1", SERVER, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{SERVER} does not answer {terminal.name} within {WITHIN_S:.0f} s")
