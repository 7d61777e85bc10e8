# SPDX-License-Identifier: Apache-2.0
"""Gateways on the kernel's datapath, whose bridge `bicast bridge` makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mininet.topo import Topo

from lab.links.shape import UNSHAPED
from lab.stage import ovs
from lab.stage.nodes import Gateway


class PreparedGateway(Gateway):
    """A gateway whose bridge `bicast bridge` makes from a gateway.yaml, without additions."""

    def __init__(self, name: str, file: Path, **options: Any) -> None:
        super().__init__(name, **options)
        self.file = file

    def start(self, controllers: Sequence[Any]) -> None:
        self.silence_linux()
        self.run("./bicast", "bridge", str(self.file))


class LossyGateway(PreparedGateway):
    """A gateway whose ports keep netem's losses: QoS of type linux-noop makes Open vSwitch leave their queues alone."""

    def start(self, controllers: Sequence[Any]) -> None:
        super().start(controllers)
        for name in self.intfNames():
            if name != "lo":
                noop = ("--id=@qos", "create", "QoS", "type=linux-noop")
                ovs.vsctl("--", *noop, "--", "set", "Port", name, "qos=@qos")


def on_the_kernel(topo: type[Topo], file: Path, gateway: type[PreparedGateway], **options: Any) -> Topo:
    """Return the topology with such gateways, without rates and losses: Open vSwitch removes queueing disciplines that
    it does not know. Those of a LossyGateway can be set once it runs.
    """

    class OnTheKernel(topo):  # type: ignore[misc]
        def addSwitch(self, name: str, **named: Any) -> str:  # Mininet's name
            return str(super().addSwitch(name, **named | {"cls": gateway, "file": file}))

        def addLink(self, *nodes: str, **named: Any) -> Any:  # Mininet's name
            return super().addLink(*nodes, **named | {"forward": UNSHAPED, "backward": UNSHAPED})

    return OnTheKernel(**options)
