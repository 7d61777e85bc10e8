# SPDX-License-Identifier: Apache-2.0
"""Run a topology on a private Open vSwitch.

isolate.enter()
with raised(PaperTopo(), controller="tcp:127.0.0.1:6653") as net:
    net["client"].run("ping", "-c1", "192.168.0.2")
    net.uplink("wifi").forward.set(loss_percent=10)
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import mininet.clean
from mininet.log import lg
from mininet.net import Mininet
from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.stage import isolate
from lab.stage.nodes import Gateway, Machine
from lab.stage.ovs import PrivateOvs


def refuse_unknown(unknown: Mapping[str, object], known: Iterable[str]) -> None:
    if unknown:
        raise ValueError(f"unknown parameter {', '.join(unknown)}: expected one of {', '.join(known)}")


OPEN_FILES = 16384


class Stage(Mininet):  # type: ignore[misc]  # Mininet is untyped
    """A Mininet with typed access."""

    def machine(self, name: str) -> Machine:
        machine = self.nameToNode[name]
        assert isinstance(machine, Machine)
        return machine

    @property
    def gateways(self) -> tuple[Gateway, ...]:
        return tuple(self.switches)

    def uplink(self, label: str) -> ShapedLink:
        """Return the link with this label; `forward` is up (from the gateway), `backward` is down."""
        links: list[ShapedLink] = self.links
        return next(link for link in links if link.label == label)


@contextmanager
def raised(topo: Topo, controller: str | None = None) -> Iterator[Stage]:
    """Run a topology until the block ends; `controller` is an OVS target such as tcp:127.0.0.1:6653."""
    _prepare_mininet()
    with PrivateOvs():
        net = Stage(topo=topo, build=False, controller=None)
        try:
            net.build()
            net.start()
            if controller is not None:
                for gateway in net.gateways:
                    gateway.connect(controller)
            yield net
        finally:
            net.stop()


def prepare_for_mn() -> None:
    """Run the `mn --custom` command again in a world with its own Open vSwitch."""
    isolate.enter()
    # mn cleans the whole machine, including /tmp/*.log. A world needs no cleaning.
    mininet.clean.sh = lambda _command: ""
    _prepare_mininet()
    PrivateOvs().start()  # it ends with the world


def _prepare_mininet() -> None:
    # Mininet would write sysctls of the whole machine.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(OPEN_FILES, hard)), hard))
    Mininet.inited = True
    lg.setLogLevel("warning")
