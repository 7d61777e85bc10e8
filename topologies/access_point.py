# SPDX-License-Identifier: Apache-2.0
"""Up to ten terminals on one half-duplex access point.

    t1 ── t1 ┌────┐        half-duplex         ┌───────┐ gw-wan  wan ┌────────┐ s4 ──── delay ── lan s4 .1.2
    ...      │ ap ├─ uplink ── 20 Mbit/s ── gw-air br-ap ├─────────────┤ router │ ...
    t10 ─ t10└────┘     1.5 MB each way        └───────┘.100.2  .100.1└────────┘ s256 ── delay ── lan s256 .4.2

All addresses are 192.168.x.y/24. The terminals are .50.11 to .50.20, their gateway is .50.1. Round trips to s4, s16,
s64 and s256 take as many ms, plus the access point's delay. Other links are unshaped.

Each waiting station (terminal or gateway) beyond the first costs the share `contention` of the 20 Mbit/s; at least 2
Mbit/s remain.

    mn --custom topologies/access_point.py --topo access_point
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage.nodes import Gateway, Machine, Route
from lab.stage.stage import refuse_unknown

BRIDGE = "br-ap"
AIR_BPS = 20_000_000
QUEUE_BYTES = 1_500_000
MOST_TERMINALS = 10
TERMINALS = tuple(f"t{number}" for number in range(1, MOST_TERMINALS + 1))
RTTS_MS = {"s4": 4, "s16": 16, "s64": 64, "s256": 256}
SERVERS = {name: f"192.168.{number}.2" for number, name in enumerate(RTTS_MS, 1)}
PARAMETERS = ("terminals", "contention")


def address(terminal: str) -> str:
    return f"192.168.50.{11 + TERMINALS.index(terminal)}"


def air(contention: float = 0.0) -> Shape:
    return Shape(AIR_BPS, queue_bytes=QUEUE_BYTES, shared=True, contention=contention)


def _gateway(server: str) -> str:
    return SERVERS[server].removesuffix("2") + "1"


class AccessPointTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self, terminals: int = MOST_TERMINALS, contention: float = 0.0, **unknown: Any) -> None:
        refuse_unknown(unknown, PARAMETERS)
        if not isinstance(terminals, int) or not 1 <= terminals <= MOST_TERMINALS:
            raise ValueError(f"terminals={terminals}: expected a whole number from 1 to {MOST_TERMINALS}")
        self._inside(TERMINALS[:terminals], contention)
        self._outside()

    def _inside(self, terminals: tuple[str, ...], contention: float) -> None:
        self.addSwitch(BRIDGE, cls=Gateway, dpid="0000000000000004")
        self.addHost("ap", cls=Machine, bridge=["uplink", *terminals])
        shape = air(contention)
        self._link("ap", BRIDGE, "uplink", "gw-air", port2=1, label="air", forward=shape, backward=shape)
        for name in terminals:
            own = {"wlan": [f"{address(name)}/24"]}
            self.addHost(name, cls=Machine, addresses=own, routes=[Route("default", "192.168.50.1")])
            self._link(name, "ap", "wlan", name)

    def _outside(self) -> None:
        addresses = {name: [f"{_gateway(name)}/24"] for name in SERVERS}
        addresses["wan"] = ["192.168.100.1/24"]
        inside = [Route("192.168.50.0/24", "192.168.100.2")]
        self.addHost("router", cls=Machine, forwards=True, addresses=addresses, routes=inside)
        self._link(BRIDGE, "router", "gw-wan", "wan", port1=2, label="wan")
        for name, rtt_ms in RTTS_MS.items():
            default = Route("default", _gateway(name))
            self.addHost(name, cls=Machine, addresses={"lan": [f"{SERVERS[name]}/24"]}, routes=[default])
            each = Shape(delay_ms=rtt_ms / 2)
            self._link("router", name, name, "lan", label=name, forward=each, backward=each)

    def _link(self, node1: str, node2: str, name1: str, name2: str, **options: Any) -> None:
        self.addLink(node1, node2, cls=ShapedLink, intfName1=name1, intfName2=name2, **options)


topos = {"access_point": AccessPointTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
