# SPDX-License-Identifier: Apache-2.0
"""The stage of a topology on a private Open vSwitch, for the lab, the tests and the experiments.

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
    """Raise ValueError for a parameter of `mn --topo NAME,parameter=value` that the topology lacks."""
    if unknown:
        raise ValueError(f"there is no parameter {', '.join(unknown)}: expected {', '.join(known)}")


OPEN_FILES = 16384


class Stage(Mininet):  # type: ignore[misc]  # Mininet is untyped
    """A Mininet whose members are known by name and type."""

    def machine(self, name: str) -> Machine:
        machine = self.nameToNode[name]
        assert isinstance(machine, Machine)
        return machine

    @property
    def gateways(self) -> tuple[Gateway, ...]:
        return tuple(self.switches)

    def uplink(self, label: str) -> ShapedLink:
        """The link of this name; `forward` is up (from the gateway), `backward` is down."""
        links: list[ShapedLink] = self.links
        return next(link for link in links if link.label == label)


@contextmanager
def raised(topo: Topo, controller: str | None = None) -> Iterator[Stage]:
    """The topology, up and running; `controller` is OVS's word for it, like tcp:127.0.0.1:6653."""
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


def set_for_mn() -> None:
    """What `mn --custom` needs before it builds: this command again, in a world, on an Open vSwitch of its own."""
    isolate.enter()
    # Before and after a failure mn sweeps the machine, /tmp/*.log among it; this world ends whole, and the machine is
    # not ours to sweep.
    mininet.clean.sh = lambda _command: ""
    _prepare_mininet()
    PrivateOvs().start()  # the world's end is its end


def _prepare_mininet() -> None:
    # In place of Mininet's own preparation, which writes sysctls of the whole machine.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(OPEN_FILES, hard)), hard))
    Mininet.inited = True
    lg.setLogLevel("warning")
