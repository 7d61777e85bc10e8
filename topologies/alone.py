# SPDX-License-Identifier: Apache-2.0
"""A home without a far site: its host serves a LAN and has both uplinks, with the addresses that the providers gave it.

    tablet ── lan0 ─ world ═ ve-home ┌─────────┐ up-fibre ═ world ─ fibre0 ── .2.1 fibre ┐
                                     │ br-home │                                         ├ web
                                     └─────────┘ up-lte ═══ world ─ lte0 ── .100.1 lte ──┘ 203.0.113.77

The world has 192.0.2.10 at fibre0 and 198.51.100.10 at lte0, each with a default route. The providers' routers know
nothing of the LAN 192.168.8.0/24. Until `bicast bridge` makes the other ports of br-home, it has none.

    mn --custom topologies/alone.py --topo alone
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from mininet.topo import Topo

from lab.stage.nodes import Gateway, Machine, Route
from lab.stage.stage import refuse_unknown
from topologies.paper import BRIDGE

WEB = "203.0.113.77"
PROVIDERS = {"fibre": "192.0.2", "lte": "198.51.100"}  # the networks between home and its providers
LATE_PORTS = {"up-fibre": 1, "up-lte": 2, "ve-home": 3}


class AloneTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self, **unknown: Any) -> None:
        refuse_unknown(unknown, ())
        self.addSwitch(BRIDGE, cls=Gateway, dpid="0000000000000001", late_ports=LATE_PORTS)
        devices = {f"{name}0": [f"{network}.10/24"] for name, network in PROVIDERS.items()}
        ways = [Route("default", f"{net}.1", metric=100 * at) for at, net in enumerate(PROVIDERS.values(), 1)]
        self.addHost("world", cls=Machine, inNamespace=False, addresses=devices, routes=ways)
        self.addHost("tablet", cls=Machine)
        self.addLink("tablet", "world", intfName1="lan", intfName2="lan0")
        back = [Route(f"{network}.0/24", f"10.0.{at}.1") for at, network in enumerate(PROVIDERS.values())]
        addresses = {name: [f"10.0.{at}.2/30"] for at, name in enumerate(PROVIDERS)}
        self.addHost("web", cls=Machine, addresses={**addresses, "lo": [f"{WEB}/32"]}, routes=back)
        for at, (name, network) in enumerate(PROVIDERS.items()):
            inside = {"home": [f"{network}.1/24"], "net": [f"10.0.{at}.1/30"]}
            way = [Route(f"{WEB}/32", f"10.0.{at}.2")]
            self.addHost(name, cls=Machine, forwards=True, addresses=inside, routes=way)
            self.addLink("world", name, intfName1=f"{name}0", intfName2="home")
            self.addLink(name, "web", intfName1="net", intfName2=name)


topos = {"alone": AloneTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
