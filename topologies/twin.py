# SPDX-License-Identifier: Apache-2.0
"""Two sites at the ends of the same uplinks: the paper's laboratory with an Open vSwitch instead of the router.

                  home (br-home)                            far (br-far)
    client ── gw-c1 ┌────────┐ gw-wifi ── 100 Mbit/s ── fe-wifi ┌───────┐ fe-s1
                    │        │ .100.2                    .100.1 │       ├─────── server .0.2
    client ── gw-c2 │        │ gw-lte ──── 10 Mbit/s ─── fe-lte │  .0.1 │
                    └────────┘ .200.2                    .200.1 └───────┘

All addresses are 192.168.x.y/24; the client's are .110.3 and .210.3, as in paper.py. Each site copies what its own side
sends.

    mn --custom topologies/twin.py --topo twin
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import UNSHAPED, Shape
from lab.stage.nodes import Gateway, Machine, Route
from lab.stage.stage import refuse_unknown
from topologies.paper import BRIDGE as HOME
from topologies.paper import LTE_BPS, SERVER, WIFI_BPS, add_client

FAR = "br-far"
RATES_BPS = {"wifi": WIFI_BPS, "lte": LTE_BPS}
PARAMETERS = ("shaped", "wifi_jitter_ms", "lte_delay_ms", "wifi_delay_ms")
FIRST_UPLINK = 3  # its port at either bridge


class SitesTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    """Both sites without the network between them."""

    def raise_sites(self, late_ports: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Add both sites; `late_ports` are, by bridge, ports whose devices are made later."""
        late_ports = late_ports or {}
        add_client(self)
        self.addSwitch(HOME, cls=Gateway, dpid="0000000000000001", late_ports=late_ports.get(HOME))
        self.addSwitch(FAR, cls=Gateway, dpid="0000000000000003", late_ports=late_ports.get(FAR))
        self.addHost(
            "server",
            cls=Machine,
            addresses={"lan": [f"{SERVER}/24"]},
            routes=[Route("default", "192.168.0.1")],
        )
        for number, name in enumerate(RATES_BPS, 1):
            self.join("client", HOME, name, f"gw-c{number}", port2=number)
        self.join(FAR, "server", "fe-s1", "lan", port1=1)

    def join(self, node1: str, node2: str, name1: str, name2: str, **options: Any) -> None:
        self.addLink(node1, node2, cls=ShapedLink, intfName1=name1, intfName2=name2, **options)


def shapes(shaped: bool, wifi_jitter_ms: float, lte_delay_ms: float, wifi_delay_ms: float) -> dict[str, Shape]:
    each = {name: Shape(rate_bps) if shaped else UNSHAPED for name, rate_bps in RATES_BPS.items()}
    each["wifi"] = replace(each["wifi"], delay_ms=wifi_delay_ms, jitter_ms=wifi_jitter_ms)
    each["lte"] = replace(each["lte"], delay_ms=lte_delay_ms)
    return each


class TwinTopo(SitesTopo):
    def build(
        self,
        shaped: bool = True,
        wifi_jitter_ms: float = 0.0,
        lte_delay_ms: float = 0.0,
        wifi_delay_ms: float = 0.0,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown, PARAMETERS)
        self.raise_sites()
        each = shapes(shaped, wifi_jitter_ms, lte_delay_ms, wifi_delay_ms)
        for number, (name, shape) in enumerate(each.items(), FIRST_UPLINK):
            ends = {"port1": number, "port2": number, "forward": shape, "backward": shape, "label": name}
            self.join(HOME, FAR, f"gw-{name}", f"fe-{name}", **ends)


topos = {"twin": TwinTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
