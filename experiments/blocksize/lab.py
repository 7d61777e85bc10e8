"""Terminals that share one access point, on which everything they send waits in one queue.

    t1 ─┐
    t2 ─┼─ air ── 20 Mbit/s, 1.5 MB of queue, 64 ms there and back ── server
    t3 ─┘

All are in 10.3.0.0/24, terminal N at 10.3.0.N. No controller, no agent and no MPTCP: what is measured is what writes
do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mininet.topo import Topo

from topologies import ovs
from topologies.links import Shape, ShapedLink
from topologies.nodes import Machine
from topologies.stage import Stage, raised
from topologies.watch import watched

SERVER = "10.3.0.254"
AIR = "air"
RATE_BPS, QUEUE_BYTES = 20_000_000, 1_500_000
RTT_MS = 64.0
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
GOODPUT_BPS = RATE_BPS * PAYLOAD_BYTES / FRAME_BYTES  # that the air lets through


class AirTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self, terminals: int) -> None:
        ports = [f"air-t{number}" for number in range(1, terminals + 1)]
        self.addHost("air", cls=Machine, bridge=[*ports, "air-up"])
        self.addHost("server", cls=Machine, addresses={"lan": [f"{SERVER}/24"]})
        for number, port in enumerate(ports, 1):
            self.addHost(f"t{number}", cls=Machine, addresses={"wlan": [f"10.3.0.{number}/24"]})
            self.addLink(f"t{number}", "air", cls=ShapedLink, intfName1="wlan", intfName2=port)
        way = Shape(RATE_BPS, queue_bytes=QUEUE_BYTES, delay_ms=RTT_MS / 2)
        self.addLink(
            "air", "server", cls=ShapedLink, intfName1="air-up", intfName2="lan", label=AIR, forward=way, backward=way
        )


@dataclass(frozen=True, slots=True)
class Laboratory:
    net: Stage

    @property
    def server(self) -> Machine:
        return self.net.machine("server")

    def terminals(self, count: int) -> list[Machine]:
        return [self.net.machine(f"t{number}") for number in range(1, count + 1)]

    def forget(self) -> None:
        """What TCP remembers of uploads before."""
        for machine in (self.server, *(each for each in self.net.hosts if each.name.startswith("t"))):
            machine.run("ip", "tcp_metrics", "flush")

    def stalled(self) -> str:
        """How the machine has held the air up since this was last asked; empty: it has not."""
        late = self.net.uplink(AIR).lateness()
        return f"on the air {late}" if late.stalled else ""


@contextmanager
def laboratory(terminals: int, logs: Path) -> Iterator[Laboratory]:
    with raised(AirTopo(terminals=terminals)) as net, watched(ovs.needed(), logs):
        yield Laboratory(net)
