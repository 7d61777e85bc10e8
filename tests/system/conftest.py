# SPDX-License-Identifier: Apache-2.0
"""A real controller process, a real Open vSwitch and real packets run in an isolated world."""

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
from tests.system.evidence import OpenFlowRecorder, reaches, snooping, until
from topologies.paper import BRIDGE, SERVER, PaperTopo
from topologies.twin import TwinTopo
from topologies.wide import WideTopo


def pytest_configure(config: pytest.Config) -> None:
    if not isolate.inside():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)  # or the second pytest could not write to the terminal
        isolate.enter()


@dataclass(frozen=True)
class GatewayLab:
    """A stage and the controller of its gateway."""

    net: Stage
    controller: Controller

    def returns_soon(self) -> None:
        """Shorten the backoff of 8 s. Open vSwitch 3.1 reads max_backoff only when it changes while connected."""
        for gateway in self.net.gateways:
            ovs.vsctl("set", "Controller", gateway.name, f"max_backoff={MAX_BACKOFF_MS + 1}")

    def await_in_force(self) -> None:
        """Wait until switches and their caches hold the configuration. No message reports the caches."""
        self.controller.await_steady()
        ovs.await_caches()

    def reconnect(self) -> None:
        """Have the switch read at once, and not at the next periodic reading.

        Open vSwitch empties its tables if it has no controller, even for a moment.
        """
        for gateway in self.net.gateways:
            gateway.connect(THE_SAME)
            gateway.connect(OPENFLOW)


THE_SAME = OPENFLOW.replace("127.0.0.1", "[::ffff:127.0.0.1]")  # a different controller for Open vSwitch
PAPER = TREE / "topologies" / "paper.yaml"
WIDE = TREE / "topologies" / "wide.yaml"
TWIN = TREE / "topologies" / "twin.yaml"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Yield a directory of the module, so that no test finds the overrides of another."""
    with tempfile.TemporaryDirectory(prefix="system-", dir=isolate.RUN_DIRECTORY) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def paper(place: Path) -> Iterator[GatewayLab]:
    """Yield the paper's lab without rates and losses, in a steady state."""
    # The controller starts first, so that Open vSwitch's first attempt succeeds.
    with controlled(PAPER, directory=place) as controller, raised(PaperTopo(shaped=False), controller=OPENFLOW) as net:
        controller.await_steady()
        yield GatewayLab(net, controller)


@pytest.fixture(scope="module")
def wide(place: Path) -> Iterator[GatewayLab]:
    with ExitStack() as stack:
        controller = stack.enter_context(controlled(WIDE, directory=place))
        net = stack.enter_context(raised(WideTopo(), controller=OPENFLOW))
        for link in net.links:
            link.forward.set(loss_percent=0)
            link.backward.set(loss_percent=0)
        controller.await_steady()
        yield GatewayLab(net, controller)


@pytest.fixture(scope="module")
def snoop(paper: GatewayLab) -> Iterator[OpenFlowRecorder]:
    with snooping(BRIDGE) as snoop:
        yield snoop


@pytest.fixture(scope="module")
def twin(place: Path) -> Iterator[GatewayLab]:
    with two_sites(place) as home:
        yield home


@contextmanager
def two_sites(place: Path) -> Iterator[GatewayLab]:
    """Yield two peer sites. Their controller serves agents, and none has joined yet."""
    with (
        controlled(TWIN, SETTINGS, directory=place) as controller,
        raised(TwinTopo(shaped=False), controller=OPENFLOW) as net,
    ):
        controller.await_steady()
        home = GatewayLab(net, controller)
        home.returns_soon()
        greeted(home)
        yield home


def greeted(twin: GatewayLab) -> None:
    """Wait until the switch has learned the client's MACs from its first packets."""
    for address in ("192.168.110.3", "192.168.210.3"):
        until(lambda own=address: reaches(twin.net.machine("client"), own, SERVER), f"{address} is found")


@contextmanager
def slowed(net: Stage, rate_bps: int, *uplinks: str) -> Iterator[Callable[[], None]]:
    """Limit downloads over these uplinks to this rate until the block ends or calls the yielded function."""
    with ExitStack() as lifted:
        for way in (net.uplink(name).backward for name in uplinks):
            lifted.callback(way.set, rate_bps=way.shape.rate_bps)
            way.set(rate_bps=rate_bps)
        yield lifted.close


@dataclass(frozen=True)
class PeopleOverrides:
    """Overrides by people. They are in force when a method returns."""

    home: GatewayLab

    def mode(self, mode: str) -> None:
        self.home.controller.client.set_mode("client", mode)
        self.home.await_in_force()

    def active(self, uplink: str) -> None:
        self.home.controller.client.set_active("client", uplink)
        self.home.await_in_force()


@pytest.fixture
def wish(paper: GatewayLab) -> Iterator[PeopleOverrides]:
    """Yield the overrides, and restore the file's settings after the test."""
    wishes = PeopleOverrides(paper)
    yield wishes
    wishes.active("wifi")
    wishes.mode("bicast")
