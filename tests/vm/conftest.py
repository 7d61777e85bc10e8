"""The promises that hold on Open vSwitch's userspace datapath hold on the kernel's, on bridges made by `bicast bridge`.

These tests want a kernel that has that datapath, and netem: `make vm` boots one. Elsewhere they are not collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mininet.topo import Topo

from experiments.running import Controller
from tests.system.conftest import PAPER, WIDE, Home, place, snoop, wish
from topologies.links import UNSHAPED
from topologies.nodes import Gateway
from topologies.paper import PaperTopo
from topologies.stage import raised
from topologies.wide import WideTopo

__all__ = ["place", "snoop", "wish"]

IN_THE_VM = os.environ.get("BICAST_VM") == "1"  # setup/vm/inside.sh
SLOWNESS = int(os.environ.get("BICAST_SLOWNESS", "1"))
collect_ignore_glob = [] if IN_THE_VM else ["test_*.py"]


class Patient(Controller):
    """On an emulated processor all takes longer."""

    PATIENCE_S = Controller.PATIENCE_S * SLOWNESS


class Prepared(Gateway):
    """A gateway whose bridge is what `bicast bridge` makes of a gateway.yaml, and nothing is added to it."""

    def __init__(self, name: str, file: Path, **options: Any) -> None:
        super().__init__(name, **options)
        self.file = file

    def start(self, controllers: Sequence[Any]) -> None:
        self._quiet()
        self.run("./bicast", "bridge", str(self.file))


def on_the_kernel(topo: type[Topo], file: Path) -> Topo:
    """Without rates and losses: Open vSwitch removes what shapes its ports, unless it is told of it."""

    class OnTheKernel(topo):  # type: ignore[misc,valid-type]
        def addSwitch(self, name: str, **options: Any) -> str:  # Mininet's name
            return str(super().addSwitch(name, **options | {"cls": Prepared, "file": file}))

        def addLink(self, *nodes: str, **options: Any) -> Any:  # Mininet's name
            return super().addLink(*nodes, **options | {"forward": UNSHAPED, "backward": UNSHAPED})

    return OnTheKernel()


def home(topo: type[Topo], file: Path, place: Path) -> Iterator[Home]:
    written = place / file.name
    written.write_text(file.read_text().replace("datapath: netdev", "datapath: system"))
    running = place / "controller"
    running.mkdir()
    controller = Patient(written, directory=running)
    controller.start()
    try:
        with raised(on_the_kernel(topo, written)) as net:
            controller.await_steady()
            yield Home(net, controller)
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def paper(place: Path) -> Iterator[Home]:
    yield from home(PaperTopo, PAPER, place)


@pytest.fixture(scope="module")
def wide(place: Path) -> Iterator[Home]:
    yield from home(WideTopo, WIDE, place)
