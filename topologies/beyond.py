# SPDX-License-Identifier: Apache-2.0
"""The two sites of twin.py, and the internet behind the far site's bridge host.

    client ── br-home ══ wifi, lte ══ br-far ── ve-far ═ ve-far-h ── world ─ eth0 ───── web
                                        │      .98.0.1    .98.0.2          203.0.113.9  .77
                                      server

ve-far is a port of br-far from the start. Until `bicast bridge` makes its device in the world's root namespace, nothing
gets to the internet. web has no route to either site, so clients need NAT. IPv6: the
client is fd00:110::3 in Wi-Fi's subnet, the internet gateway fd00:98::2, web 2001:db8:77::77.

    mn --custom topologies/beyond.py --topo beyond
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from lab.stage.nodes import Machine, Route
from topologies.twin import FAR, TwinTopo

WEB, WEB6 = "203.0.113.77", "2001:db8:77::77"
SIXTH = "fd00:110::3"  # the client's IPv6
EXIT_PORT = "ve-far"


class BeyondTopo(TwinTopo):
    def raise_sites(self, late_ports: Mapping[str, Mapping[str, int]] | None = None) -> None:
        super().raise_sites({**(late_ports or {}), FAR: {EXIT_PORT: 2}})
        client = self.nodeInfo("client")
        client["addresses"]["wifi"] = [*client["addresses"]["wifi"], f"{SIXTH}/64"]
        client["routes"] = [*client["routes"], Route("default", "fd00:110::2")]
        outside = {"eth0": ["203.0.113.9/24", "2001:db8:77::9/64"]}
        onward = [Route("default", WEB), Route("default", WEB6)]
        self.addHost("world", cls=Machine, inNamespace=False, addresses=outside, routes=onward)
        self.addHost("web", cls=Machine, addresses={"lan": [f"{WEB}/24", f"{WEB6}/64"]})
        self.join("world", "web", "eth0", "lan")


topos = {"beyond": BeyondTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
