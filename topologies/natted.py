# SPDX-License-Identifier: Apache-2.0
"""The two sites of twin.py behind NATs; the uplinks are tunnels through the Internet.

    br-home                                                                                               br-far
    tn-wifi ┐ homehost                                                                        farhost ┌ tf-wifi
    tn-lte ─┤                  100 Mbit/s           wifi  .100.0/24                                    ├─ tf-lte
            ├─ un-wifi .31.2 ───────────── nat-wifi .10 ─────────┐ internet                            │
            │                                                    ├────────── un 203.0.113.9 ───────────┘
            └─ un-lte  .32.2 ───────────── nat-lte  .10 ─────────┘  far .1
                               10 Mbit/s            lte  .2.0/24

Clients, server and inner addresses are twin.py's. Outside, un-wifi and un-lte are 192.168.31.2 and 192.168.32.2, each
with a default route; the internet sees nat-wifi as 198.51.100.10 and nat-lte as 192.0.2.10. The sites' agents run in
homehost and farhost (lab/processes/agents.py) and make the devices of the bridge ports tn- and tf-; before that the
sites cannot reach each other. The controller is at CONTROLLER, in the world's root network namespace.

    mn --custom topologies/natted.py --topo natted
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.stage.addresses import CONTROLLER
from lab.stage.nodes import Machine, Nat, Route
from lab.stage.stage import refuse_unknown
from topologies.paper import BRIDGE as HOME
from topologies.twin import FAR, FIRST_UPLINK, PARAMETERS, SitesTopo, shapes

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

if TYPE_CHECKING:
    from lab.stage.stage import Stage
FAR_OUTER = "203.0.113.9"
INNER_NETWORKS = {"wifi": "192.168.31", "lte": "192.168.32"}  # between homehost and each NAT
OUTER = {"wifi": "198.51.100", "lte": "192.0.2"}  # between each NAT and the internet
DEFAULT_MTU = 1500


class NattedTopo(SitesTopo):
    def build(
        self,
        shaped: bool = True,
        wifi_jitter_ms: float = 0.0,
        lte_delay_ms: float = 0.0,
        wifi_delay_ms: float = 0.0,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown, PARAMETERS)
        tunnels = {bridge: _tunnel_ports(prefix) for bridge, prefix in ((HOME, "tn"), (FAR, "tf"))}
        self.raise_sites(late_ports=tunnels)
        self._machines()
        for name, shape in shapes(shaped, wifi_jitter_ms, lte_delay_ms, wifi_delay_ms).items():
            self.join("homehost", f"nat-{name}", f"un-{name}", "in", forward=shape, backward=shape, label=name)
            self.join(f"nat-{name}", "internet", "out", name)
        self.join("internet", "farhost", "far", "un")
        self.join("world", "homehost", "mg-home", "mgmt")
        self.join("world", "farhost", "mg-far", "mgmt")

    def _machines(self) -> None:
        self.addHost(
            "world",
            cls=Machine,
            inNamespace=False,
            addresses={"mg-home": [f"{CONTROLLER}/30"], "mg-far": ["198.18.2.1/30"]},
        )
        own = {f"un-{name}": [f"{net}.2/24"] for name, net in INNER_NETWORKS.items()}
        self.addHost(
            "homehost",
            cls=Machine,
            addresses={**own, "mgmt": ["198.18.1.2/30"]},
            routes=[Route("default", f"{net}.1", metric=100 * n) for n, net in enumerate(INNER_NETWORKS.values(), 1)],
        )
        for name, net in OUTER.items():
            self.addHost(
                f"nat-{name}",
                cls=Nat,
                addresses={"in": [f"{INNER_NETWORKS[name]}.1/24"], "out": [f"{net}.10/24"]},
                routes=[Route("default", f"{net}.1")],
            )
        self.addHost(
            "internet",
            cls=Nat,
            outside="far",
            translates=False,
            addresses={**{name: [f"{net}.1/24"] for name, net in OUTER.items()}, "far": ["203.0.113.1/24"]},
        )
        self.addHost(
            "farhost",
            cls=Machine,
            addresses={"un": [f"{FAR_OUTER}/24"], "mgmt": ["198.18.2.2/30"]},
            routes=[Route("default", "203.0.113.1"), Route(f"{CONTROLLER}/32", "198.18.2.1")],
        )


def _tunnel_ports(prefix: str) -> dict[str, int]:
    return {f"{prefix}-{name}": number for number, name in enumerate(INNER_NETWORKS, FIRST_UPLINK)}


def nat(net: Stage, name: str) -> Nat:
    machine = net.machine(name if name == "internet" else f"nat-{name}")
    assert isinstance(machine, Nat)
    return machine


@contextmanager
def behind_one_address(net: Stage) -> Iterator[None]:
    """The far site sees both uplinks as 203.0.113.1, each with a random port."""
    internet = nat(net, "internet")
    internet.translate()
    try:
        yield
    finally:
        internet.stop_translating()


@contextmanager
def narrowed(net: Stage, uplink: str, mtu: int) -> Iterator[None]:
    """Limit the MTU between the uplink's NAT and the internet, without ICMP errors."""
    ends = ((nat(net, uplink), "out"), (nat(net, "internet"), uplink))
    for machine, device in ends:
        machine.limit_mtu(device, mtu)
    try:
        yield
    finally:
        for machine, device in ends:
            machine.restore_mtu(device, DEFAULT_MTU)


topos = {"natted": NattedTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
