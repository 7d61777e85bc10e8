# SPDX-License-Identifier: Apache-2.0
"""A home behind a gateway with two uplinks; in the Internet two relays and a plain web server.

    television .20 ─ gw-t1 ┌─────────┐ gw-wifi ─ 100 Mbit/s ─ .100.1 ┌──────────┐ core ┌──────────┐ ── tokyo, osaka
    laptop ─── .21 ─ gw-t2 │ br-home │                               │ internet ├──────┤ exchange │
    guest ──── .22 ─ gw-t3 └─────────┘ gw-lte ── 10 Mbit/s ── .200.1 └──────────┘ 4 ms └──────────┘ ── 4 ms ── web
                      rl-home, rl-wifi, rl-lte                             │ own
                                world ─────────────────────────────────────┘

The terminals are 192.168.110.20 to .22, without MPTCP, as is web. The first two are relayed. The guest is a control:
its Wi-Fi traffic must not change. The relays are 45.0.10.9 and 45.0.20.9, half way to web, 45.0.30.9. The world's own
namespace is the gateway's host: its agent makes the devices of the rl- ports (docs/how-to/relay.md). Over its own link
the relays' agents reach the controller at CONTROLLER. The Internet routes the terminals over Wi-Fi, and the relayed
networks 10.97.1.0/24 and 10.97.2.0/24 over the uplink of each.

    mn --custom topologies/home.py --topo home
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
from lab.stage.addresses import CONTROLLER
from lab.stage.nodes import Gateway, Machine, Route
from lab.stage.stage import refuse_unknown
from topologies.paper import BRIDGE, LTE_BPS, WIFI_BPS

TERMINALS = {"television": "192.168.110.20", "laptop": "192.168.110.21", "guest": "192.168.110.22"}
GATEWAY = "192.168.110.2"
RELAYS = {"tokyo": "45.0.10.9", "osaka": "45.0.20.9"}
WEB = "45.0.30.9"
NEXT_HOPS = {"wifi": "192.168.100.2", "lte": "192.168.200.2"}  # by uplink
RELAYED = {"wifi": "10.97.1", "lte": "10.97.2"}  # sources of relayed connections
RATES_BPS = {"wifi": WIFI_BPS, "lte": LTE_BPS}
DELAY_MS = 4.0
LATE_PORTS = {"rl-home": 6, "rl-wifi": 7, "rl-lte": 8}


class HomeTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(
        self,
        shaped: bool = True,
        wifi_up_loss_percent: float = 0.0,
        wifi_down_loss_percent: float = 0.0,
        delay_ms: float = DELAY_MS,  # each way, on core and on web's link
        congestion_control: str | None = None,  # of terminals and web; None: the kernel's default
        **unknown: Any,
    ) -> None:
        named = ("shaped", "wifi_up_loss_percent", "wifi_down_loss_percent", "delay_ms", "congestion_control")
        refuse_unknown(unknown, named)
        self._home(congestion_control)
        self._internet(congestion_control)
        rates = RATES_BPS if shaped else dict.fromkeys(RATES_BPS)
        losses = {"wifi": (wifi_up_loss_percent, wifi_down_loss_percent), "lte": (0.0, 0.0)}
        for number, (name, rate_bps) in enumerate(rates.items(), 4):
            up, down = (Shape(rate_bps, loss) for loss in losses[name])
            self._link(BRIDGE, "internet", f"gw-{name}", name, port1=number, forward=up, backward=down, label=name)
        self._link("world", "internet", "own", "gw-own")
        far = {"forward": Shape(delay_ms=delay_ms), "backward": Shape(delay_ms=delay_ms)}
        self._link("internet", "exchange", "core", "core", label="core", **far)
        self._link("exchange", "web", "web", "lan", label="web", **far)

    def _home(self, congestion_control: str | None) -> None:
        self.addSwitch(BRIDGE, cls=Gateway, dpid="0000000000000001", late_ports=LATE_PORTS)
        for number, (name, address) in enumerate(TERMINALS.items(), 1):
            default = [Route("default", GATEWAY, congestion_control=congestion_control)]
            self.addHost(name, cls=Machine, addresses={"lan": [f"{address}/24"]}, routes=default)
            self._link(name, BRIDGE, "lan", f"gw-t{number}", port2=number)
        self.addHost(
            "world",
            cls=Machine,
            inNamespace=False,
            addresses={"own": [f"{CONTROLLER}/30"]},
            routes=[Route("default", "198.18.1.2")],
        )

    def _internet(self, congestion_control: str | None) -> None:
        sides = {name: [f"{hop.rpartition('.')[0]}.1/24"] for name, hop in NEXT_HOPS.items()}
        home = Route("192.168.110.0/24", NEXT_HOPS["wifi"])
        carried = [Route(f"{network}.0/24", NEXT_HOPS[name]) for name, network in RELAYED.items()]
        self.addHost(
            "internet",
            cls=Machine,
            forwards=True,
            addresses={**sides, "gw-own": ["198.18.1.2/30"], "core": ["45.0.0.1/30"]},
            routes=[home, *carried, Route("default", "45.0.0.2")],
        )
        servers = {**RELAYS, "web": WEB}
        self.addHost(
            "exchange",
            cls=Machine,
            forwards=True,
            addresses={"core": ["45.0.0.2/30"], **{name: [_router(each)] for name, each in servers.items()}},
            routes=[Route("default", "45.0.0.1")],
        )
        for name, address in servers.items():
            via = _router(address).partition("/")[0]
            default = Route("default", via, congestion_control=congestion_control if name == "web" else None)
            self.addHost(name, cls=Machine, addresses={"lan": [f"{address}/24"]}, routes=[default])
        for name in RELAYS:
            self._link("exchange", name, name, "lan")

    def _link(self, node1: str, node2: str, name1: str, name2: str, **options: Any) -> None:
        self.addLink(node1, node2, cls=ShapedLink, intfName1=name1, intfName2=name2, **options)


def _router(server: str) -> str:
    return f"{server.rpartition('.')[0]}.1/24"


topos = {"home": HomeTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
