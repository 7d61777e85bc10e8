# SPDX-License-Identifier: Apache-2.0
"""A real controller process, a real Open vSwitch and real packets, in a world of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.processes.agents import SETTINGS
from lab.processes.controller import OPENFLOW, TREE, Controller, controlled
from lab.stage import isolate, ovs
from lab.stage.nodes import MAX_BACKOFF_MS
from lab.stage.stage import Stage, raised
from tests.system.evidence import Snoop, reaches, snooping, until
from topologies.paper import BRIDGE, SERVER, PaperTopo
from topologies.twin import TwinTopo
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

    def await_in_force(self) -> None:
        """What was wished or written: the switches hold it, and so do their caches, of which no answer tells."""
        self.controller.await_steady()
        ovs.await_caches()

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
TWIN = TREE / "topologies" / "twin.yaml"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory of the world's own, so that no test finds the wishes of another."""
    with tempfile.TemporaryDirectory(prefix="system-", dir=isolate.RUN_DIRECTORY) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def paper(place: Path) -> Iterator[Home]:
    """The paper's lab without rates and losses, steady."""
    # The controller first: Open vSwitch's first attempt shall not be in vain.
    with controlled(PAPER, directory=place) as controller, raised(PaperTopo(shaped=False), controller=OPENFLOW) as net:
        controller.await_steady()
        yield Home(net, controller)


@pytest.fixture(scope="module")
def wide(place: Path) -> Iterator[Home]:
    with ExitStack() as stack:
        controller = stack.enter_context(controlled(WIDE, directory=place))
        net = stack.enter_context(raised(WideTopo(), controller=OPENFLOW))
        for link in net.links:
            link.forward.set(loss_percent=0)
            link.backward.set(loss_percent=0)
        controller.await_steady()
        yield Home(net, controller)


@pytest.fixture(scope="module")
def snoop(paper: Home) -> Iterator[Snoop]:
    with snooping(BRIDGE) as snoop:
        yield snoop


@pytest.fixture(scope="module")
def twin(place: Path) -> Iterator[Home]:
    with two_sites(place) as home:
        yield home


@contextmanager
def two_sites(place: Path) -> Iterator[Home]:
    """Each other's ends, and agents are served; there are none yet."""
    with (
        controlled(TWIN, SETTINGS, directory=place) as controller,
        raised(TwinTopo(shaped=False), controller=OPENFLOW) as net,
    ):
        controller.await_steady()
        home = Home(net, controller)
        home.returns_soon()
        greeted(home)
        yield home


def greeted(twin: Home) -> None:
    """The client's MACs are learned when it first speaks."""
    for address in ("192.168.110.3", "192.168.210.3"):
        until(lambda own=address: reaches(twin.net.machine("client"), own, SERVER), f"{address} is found")


@contextmanager
def slowed(net: Stage, rate_bps: int, *uplinks: str) -> Iterator[Callable[[], None]]:
    """Downloads by these uplinks get this rate until the block ends or calls what it is given."""
    with ExitStack() as lifted:
        for way in (net.uplink(name).backward for name in uplinks):
            lifted.callback(way.set, rate_bps=way.shape.rate_bps)
            way.set(rate_bps=rate_bps)
        yield lifted.close


@dataclass(frozen=True)
class Wishes:
    """What people ask, in force when they are answered."""

    home: Home

    def mode(self, mode: str) -> None:
        self.home.controller.client.set_mode("client", mode)
        self.home.await_in_force()

    def active(self, uplink: str) -> None:
        self.home.controller.client.set_active("client", uplink)
        self.home.await_in_force()


@pytest.fixture
def wish(paper: Home) -> Iterator[Wishes]:
    """Afterwards everything is as the file says."""
    wishes = Wishes(paper)
    yield wishes
    wishes.active("wifi")
    wishes.mode("bicast")
