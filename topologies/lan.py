# SPDX-License-Identifier: Apache-2.0
"""The two sites of twin.py, and a LAN that home's host serves.

    tablet ┐
           hub ── lan0 ─ world ─ ve-home-h ═ ve-home ── br-home ══ wifi, lte ══ br-far ── fe-web ─── web
    printer┘     .8.1                                                           .98.1               .98.2

ve-home is a port of br-home from the start. Until `bicast bridge` makes its device in the world's root namespace, no
device is served. The devices have no addresses: `bicast lan` gives them some. web is the internet gateway of the far
site, and reaches the LAN 192.168.8.0/24 by it.

    mn --custom topologies/lan.py --topo lan
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from lab.stage.nodes import Gateway, Machine, Route
from topologies.paper import BRIDGE as HOME
from topologies.twin import FAR, TwinTopo

WEB, WEB6 = "10.98.0.2", "fd00:98::2"
DEVICES = {"tablet": "02:00:00:00:08:01", "printer": "02:00:00:00:08:02"}


class LanTopo(TwinTopo):
    def raise_sites(self, late_ports: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.addSwitch(HOME, cls=Gateway, dpid="0000000000000001", late_ports={"ve-home": 1})
        self.addSwitch(FAR, cls=Gateway, dpid="0000000000000003")
        way = [Route("default", "10.98.0.1"), Route("default", "fd00:98::1")]
        self.addHost("web", cls=Machine, addresses={"lan": [f"{WEB}/30", f"{WEB6}/64"]}, routes=way)
        self.join(FAR, "web", "fe-web", "lan", port1=1)
        self.addHost("world", cls=Machine, inNamespace=False)
        self.addHost("hub", cls=Machine, bridge=["trunk", *DEVICES])
        self.join("world", "hub", "lan0", "trunk")
        for name, mac in DEVICES.items():
            self.addHost(name, cls=Machine)
            self.join("hub", name, name, "lan", addr2=mac)


topos = {"lan": LanTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
