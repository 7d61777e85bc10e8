# SPDX-License-Identifier: Apache-2.0
"""A terminal's path, with a relay half way.

    terminal ── 192.168.7.0/24 ── gateway ── 10.0.1.0/24 ── relay ── 45.0.0.0/24 ── server
            .2                 .1         .1             .2       .1             .2 and .3

Gateway and relay also route. Links are unlimited, with offloads, or have `delay_ms` each way on each side of the relay.
MPTCP stalls where a veth delivers within the sender's call, as no real path does (docs/how-to/relay.md). So each end
receives on its own processor, with a buffer of 4 MiB from the first byte on.
"""

from __future__ import annotations

from typing import Any

from mininet.link import Link
from mininet.topo import Topo

from lab.links.links import ShapedLink, in_order
from lab.links.shape import Shape
from lab.stage.nodes import Machine, Route

TERMINALS = "192.168.7.0/24"
GATEWAY = "192.168.7.1"
RELAY = "10.0.1.2"
INTERCEPTED, LEFT_ALONE = "45.0.0.2", "45.0.0.3"  # both the server's
NEAR, FAR = "gateway-relay", "relay-server"


class FastLink(Link):  # type: ignore[misc]  # Mininet is untyped
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for end, interface in enumerate((self.intf1, self.intf2)):
            in_order(interface.node.run, interface.name, end)


class PathTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self, delay_ms: float = 0.0) -> None:
        self._machine("terminal", ("default", GATEWAY), right="192.168.7.2")
        self._machine("gateway", ("default", RELAY), left=GATEWAY, right="10.0.1.1")
        self._machine("relay", (TERMINALS, "10.0.1.1"), left=RELAY, right="45.0.0.1")
        self._machine("server", ("default", "45.0.0.1"), left=INTERCEPTED, also=LEFT_ALONE)
        self._link("terminal", "gateway", "", 0.0)
        self._link("gateway", "relay", NEAR, delay_ms)
        self._link("relay", "server", FAR, delay_ms)

    def _machine(self, name: str, route: tuple[str, str], left: str = "", right: str = "", also: str = "") -> None:
        sides = {"left": [left, also], "right": [right]}
        addresses = {side: [f"{each}/24" for each in those if each] for side, those in sides.items()}
        own = {side: those for side, those in addresses.items() if those}
        self.addHost(name, cls=Machine, forwards=len(own) > 1, addresses=own, routes=[Route(*route)])

    def _link(self, left: str, right: str, label: str, delay_ms: float) -> None:
        shaped: dict[str, Any] = {"cls": FastLink}
        if delay_ms:
            shape = Shape(delay_ms=delay_ms)
            shaped = {"cls": ShapedLink, "label": label, "forward": shape, "backward": shape}
        self.addLink(left, right, intfName1="right", intfName2="left", **shaped)
