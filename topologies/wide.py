# SPDX-License-Identifier: Apache-2.0
"""Three uplinks, four terminals, IPv4 and IPv6: cases that the paper's laboratory lacks.

    laptop ─┬─ gw-l1 ┌──────────┐ gw-wifi ── 100 Mbit/s ──┐
            ├─ gw-l2 │          │                         │
            └─ gw-l3 │ gateway  │ gw-lte ──── 10 Mbit/s ──┼── router ── server
    phone ──┐        │ br-wide  │                         │
    camera ─┼─ air ──┤          │ gw-dsl ──── 30 Mbit/s ──┘
    sensor ─┘ gw-air └──────────┘

    uplink   gateway .2, router .1 in          its terminals' side, gateway .2
    wifi     192.168.100.0/24 fd00:100::/64    192.168.110.0/24 fd00:110::/64
    lte      192.168.200.0/24 fd00:200::/64    192.168.210.0/24 fd00:210::/64
    dsl      192.168.150.0/24 fd00:150::/64    192.168.160.0/24 fd00:160::/64
    (none)                                     192.168.50.0/24  fd00:50::/64   home
    server   192.168.0.2/24 fd00:1::2/64 behind the router's .1

laptop (.3) has an interface in each uplink's side. phone (.4) has one for all, behind the access point `air`. camera
(.5) has both families in home, sensor (.6) only IPv6.

    mn --custom topologies/wide.py --topo wide
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage.nodes import Gateway, Machine, Route, SubflowEndpoint
from lab.stage.stage import refuse_unknown

BRIDGE = "br-wide"
SERVER4, SERVER6 = "192.168.0.2", "fd00:1::2"


@dataclass(frozen=True, slots=True)
class Uplink:
    """`outer` and `inner` are the third number of its subnets in both families."""

    name: str
    outer: int
    inner: int
    rate_bps: int
    loss_percent: float = 0.0
    backup: bool = False

    @property
    def shape(self) -> Shape:
        return Shape(self.rate_bps, self.loss_percent)


UPLINKS = (
    Uplink("wifi", 100, 110, 100_000_000),
    Uplink("lte", 200, 210, 10_000_000, loss_percent=1.0, backup=True),
    Uplink("dsl", 150, 160, 30_000_000),
)
HOME = 50


def both(subnet: int, host: int) -> list[str]:
    return [f"192.168.{subnet}.{host}", f"fd00:{subnet}::{host}"]


def with_prefix_length(addresses: list[str]) -> list[str]:
    return [f"{address}/{64 if ':' in address else 24}" for address in addresses]


class WideTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self, congestion_control: str | None = None, **unknown: Any) -> None:
        refuse_unknown(unknown, ("congestion_control",))
        self._outside(congestion_control)
        self.addSwitch(BRIDGE, cls=Gateway, dpid="0000000000000002")
        self._subflow_terminal("laptop", 3, [uplink.name for uplink in UPLINKS])
        self._subflow_terminal("phone", 4, ["wlan"] * len(UPLINKS))
        self._plain_terminal("camera", both(HOME, 5))
        self._plain_terminal("sensor", both(HOME, 6)[1:])
        air = ["phone", "camera", "sensor"]
        self.addHost("air", cls=Machine, bridge=["uplink", *air])
        for number, uplink in enumerate(UPLINKS, 1):
            self._link("laptop", BRIDGE, uplink.name, f"gw-l{number}", port2=number)
        self._link("air", BRIDGE, "uplink", "gw-air", port2=4, label="air")
        for terminal in air:
            self._link(terminal, "air", "wlan", terminal)
        for number, uplink in enumerate(UPLINKS, 5):
            shaped = {"forward": uplink.shape, "backward": uplink.shape, "label": uplink.name}
            self._link(BRIDGE, "router", f"gw-{uplink.name}", uplink.name, port1=number, **shaped)
        self._link("router", "server", "lan", "lan")

    def _outside(self, congestion_control: str | None) -> None:
        addresses = {uplink.name: with_prefix_length(both(uplink.outer, 1)) for uplink in UPLINKS}
        routes = [
            Route(subnet, gateway)
            for uplink in UPLINKS
            for subnet, gateway in zip(with_prefix_length(both(uplink.inner, 0)), both(uplink.outer, 2), strict=True)
        ]
        # One-address terminals are answered over the first uplink, whichever they used.
        routes += [
            Route(subnet, gateway)
            for subnet, gateway in zip(with_prefix_length(both(HOME, 0)), both(UPLINKS[0].outer, 2), strict=True)
        ]
        addresses["lan"] = ["192.168.0.1/24", "fd00:1::1/64"]
        self.addHost("router", cls=Machine, forwards=True, addresses=addresses, routes=routes)
        defaults = [
            Route("default", via, congestion_control=congestion_control) for via in ("192.168.0.1", "fd00:1::1")
        ]
        self.addHost("server", cls=Machine, addresses={"lan": with_prefix_length([SERVER4, SERVER6])}, routes=defaults)

    def _subflow_terminal(self, name: str, host: int, devices: list[str]) -> None:
        addresses: dict[str, list[str]] = {}
        routes = [Route("default", via) for via in both(UPLINKS[0].inner, 2)]
        endpoints = []
        for uplink, device in zip(UPLINKS, devices, strict=True):
            addresses.setdefault(device, []).extend(with_prefix_length(both(uplink.inner, host)))
            for own, via in zip(both(uplink.inner, host), both(uplink.inner, 2), strict=True):
                routes.append(Route("default", via, table=uplink.inner, source=own))
                endpoints.append(SubflowEndpoint(own, device, uplink.backup))
        self.addHost(name, cls=Machine, addresses=addresses, routes=routes, endpoints=endpoints)

    def _plain_terminal(self, name: str, own: list[str]) -> None:
        gateways = both(HOME, 2)[-len(own) :]
        routes = [Route("default", via) for via in gateways]
        self.addHost(name, cls=Machine, addresses={"wlan": with_prefix_length(own)}, routes=routes)

    def _link(self, node1: str, node2: str, name1: str, name2: str, **options: Any) -> None:
        self.addLink(node1, node2, cls=ShapedLink, intfName1=name1, intfName2=name2, **options)


topos = {"wide": WideTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
