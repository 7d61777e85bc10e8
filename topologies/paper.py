# SPDX-License-Identifier: Apache-2.0
"""The laboratory of the paper (paper 002, section 3.2, tables 2, 5 and 6).

                          gateway (OVS, userspace)                        router
             wifi ┌───────────────┐ gw-c1   gw-wifi ┌──────────────┐ wifi ┌────────┐
     client ──────┤ .110.3   .110.2│       │.100.2   ├── 100 Mbit/s ├──────┤ .100.1 │ lan      lan
                  │               │       │          ┊              ┊      │   .0.1 ├────────── server .0.2
     client ──────┤ .210.3   .210.2│       │.200.2   ├── 10 Mbit/s  ├──────┤ .200.1 │
             lte  └───────────────┘ gw-c2   gw-lte   └ 1 % each way ┘  lte └────────┘

All addresses are 192.168.x.y/24. The client has one MPTCP subflow address per side; LTE's is backup by default, as in
the paper. In the gateway only the Open vSwitch bridge forwards.

    mn --custom topologies/paper.py --topo paper            starts it in a world, on its own Open vSwitch
    mn --custom topologies/paper.py --topo paper,wifi_up_loss_percent=10,congestion_control=bbr
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import UNSHAPED, Shape
from lab.stage.nodes import Gateway, Machine, Route, SubflowEndpoint
from lab.stage.stage import refuse_unknown

BRIDGE = "br-home"
SERVER = "192.168.0.2"
WIFI_BPS, LTE_BPS = 100_000_000, 10_000_000
LTE_LOSS_PERCENT = 1.0
WIFI_SIDE = Route("192.168.110.0/24", "192.168.100.2")  # to the client over Wi-Fi


def add_client(topo: Topo, lte_backup: bool = True, one_machine: bool = False) -> None:
    topo.addHost(
        "client",
        cls=Machine,
        inNamespace=not one_machine,
        addresses={"wifi": ["192.168.110.3/24"], "lte": ["192.168.210.3/24"]},
        routes=[
            Route("default", "192.168.110.2"),
            Route("default", "192.168.110.2", table=110, source="192.168.110.3"),
            Route("default", "192.168.210.2", table=210, source="192.168.210.3"),
        ],
        endpoints=[
            SubflowEndpoint("192.168.110.3", "wifi"),
            SubflowEndpoint("192.168.210.3", "lte", backup=lte_backup),
        ],
    )


class LabTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    """The paper's machines, for any two paths."""

    def raise_lab(
        self,
        wifi: tuple[Shape, Shape],
        lte: tuple[Shape, Shape],
        lte_backup: bool,
        congestion_control: str | None,
        frames_lost: bool = False,
        one_machine: bool = False,
    ) -> None:
        self._machines(lte_backup, congestion_control, one_machine)
        self._link("client", BRIDGE, "wifi", "gw-c1", "08:00:27:86:0d:bc", "08:00:27:f9:49:62", port2=1)
        self._link("client", BRIDGE, "lte", "gw-c2", "08:00:27:ec:c0:04", "08:00:27:2a:a0:c3", port2=2)
        self._link(
            BRIDGE, "router", "gw-wifi", "wifi", "08:00:27:81:6b:cf", "08:00:27:33:6d:a7",
            port1=3, label="wifi", forward=wifi[0], backward=wifi[1],
        )  # fmt: skip
        self._link(
            BRIDGE, "router", "gw-lte", "lte", "08:00:27:e7:c6:f8", "08:00:27:e1:9e:e3",
            port1=4, label="lte", forward=lte[0], backward=lte[1],
        )  # fmt: skip
        self._link(
            "router", "server", "lan", "lan", "08:00:27:d9:74:68", "08:00:27:67:2b:63", offloads=frames_lost
        )  # fmt: skip

    def _machines(self, lte_backup: bool, congestion_control: str | None, one_machine: bool) -> None:
        add_client(self, lte_backup, one_machine)
        self.addSwitch(BRIDGE, cls=Gateway, dpid="0000000000000001", own_terminals=one_machine)
        self.addHost(
            "router",
            cls=Machine,
            forwards=True,
            addresses={"wifi": ["192.168.100.1/24"], "lte": ["192.168.200.1/24"], "lan": ["192.168.0.1/24"]},
            routes=[WIFI_SIDE, Route("192.168.210.0/24", "192.168.200.2")],
        )
        self.addHost(
            "server",
            cls=Machine,
            addresses={"lan": [f"{SERVER}/24"]},
            routes=[Route("default", "192.168.0.1", congestion_control=congestion_control)],
        )

    def _link(self, node1: str, node2: str, name1: str, name2: str, mac1: str, mac2: str, **options: Any) -> None:
        self.addLink(
            node1, node2, cls=ShapedLink, intfName1=name1, intfName2=name2, addr1=mac1, addr2=mac2, **options
        )  # fmt: skip


class PaperTopo(LabTopo):
    def build(
        self,
        wifi_up_loss_percent: float = 0.0,
        wifi_down_loss_percent: float = 0.0,
        lte_backup: bool = True,
        congestion_control: str | None = None,  # of the server; None: the kernel's default
        shaped: bool = True,
        frames_lost: bool = False,  # the router loses the server's offloaded frames, not single packets
        one_machine: bool = False,  # the gateway is the client's own
        **unknown: Any,
    ) -> None:
        losses = {"wifi_up_loss_percent": wifi_up_loss_percent, "wifi_down_loss_percent": wifi_down_loss_percent}
        refuse_unknown(unknown, (*losses, "lte_backup", "congestion_control", "shaped", "frames_lost", "one_machine"))
        for name, loss in losses.items():
            if not isinstance(loss, int | float) or not 0 <= loss <= 100:
                raise ValueError(f"{name}={loss}: expected a percentage from 0 to 100")
        wifi_up = wifi_down = lte = UNSHAPED
        if shaped:
            wifi_up = Shape(WIFI_BPS, wifi_up_loss_percent)
            wifi_down = Shape(WIFI_BPS, wifi_down_loss_percent)
            lte = Shape(LTE_BPS, LTE_LOSS_PERCENT)
        self.raise_lab(
            (wifi_up, wifi_down), (lte, lte), bool(lte_backup), congestion_control, bool(frames_lost), bool(one_machine)
        )


topos = {"paper": PaperTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
