"""A real controller process, a real Open vSwitch and real packets, in a world of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.running import OPENFLOW, TREE, Controller, controlled
from topologies import isolate, ovs
from topologies.nodes import MAX_BACKOFF_MS
from topologies.paper import PaperTopo
from topologies.stage import Stage, raised
from topologies.wide import WideTopo


def pytest_configure(config: pytest.Config) -> None:
    if not isolate.inside():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)  # or the second pytest's words would be kept from the terminal
        isolate.enter()


@dataclass(frozen=True)
class Home:
    """A stage and the controller that its gateway has."""

    net: Stage
    controller: Controller

    def returns_soon(self) -> None:
        """Open vSwitch 3.1 takes max_backoff from a change made while it is connected, and else keeps its 8 s."""
        for gateway in self.net.gateways:
            ovs.vsctl("set", "Controller", gateway.name, f"max_backoff={MAX_BACKOFF_MS + 1}")

    def reconnect(self) -> None:
        """The switch is read at once, and not at the next look.

        Without any controller, if only for a moment, Open vSwitch would empty its tables.
        """
        for gateway in self.net.gateways:
            gateway.connect(THE_SAME)
            gateway.connect(OPENFLOW)


THE_SAME = OPENFLOW.replace("127.0.0.1", "[::ffff:127.0.0.1]")  # is another to Open vSwitch
PAPER = TREE / "topologies" / "paper.yaml"
WIDE = TREE / "topologies" / "wide.yaml"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory of the world's own, so that no test finds the wishes of another."""
    with tempfile.TemporaryDirectory(prefix="system-", dir=isolate.RUN_DIRECTORY) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def paper(place: Path) -> Iterator[Home]:
    """The paper's lab without rates and losses, steady."""
    with raised(PaperTopo(shaped=False), controller=OPENFLOW) as net, controlled(PAPER, directory=place) as controller:
        controller.await_steady()
        yield Home(net, controller)


@pytest.fixture(scope="module")
def wide(place: Path) -> Iterator[Home]:
    with ExitStack() as stack:
        net = stack.enter_context(raised(WideTopo(), controller=OPENFLOW))
        for link in net.links:
            link.forward.set(loss_percent=0)
            link.backward.set(loss_percent=0)
        controller = stack.enter_context(controlled(WIDE, directory=place))
        controller.await_steady()
        yield Home(net, controller)


@pytest.fixture
def mode(paper: Home) -> Iterator[Callable[[str], None]]:
    """Sets the client's mode; afterwards it is as the file says."""

    def set_mode(mode: str) -> None:
        paper.controller.client.set_mode("client", mode)

    yield set_mode
    paper.controller.client.set_mode("client", "bicast")
    paper.controller.client.set_active("client", "wifi")
