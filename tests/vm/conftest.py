# SPDX-License-Identifier: Apache-2.0
"""The promises that hold on Open vSwitch's userspace datapath hold on the kernel's, on bridges made by `bicast bridge`.

These tests need a kernel with that datapath and netem: `make vm` boots one. Elsewhere they are not collected.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mininet.topo import Topo

from controller.edges.config import load
from controller.edges.http import client
from controller.edges.http.client import Client, NoAnswer
from lab.links.shape import UNSHAPED
from lab.processes.agents import SETTINGS_FOR_HOSTS
from lab.processes.controller import API, TREE, Controller
from lab.stage import isolate
from lab.stage.nodes import Gateway
from lab.stage.stage import raised
from tests.system.conftest import PAPER, WIDE, GatewayLab, place, snoop, wish
from tests.system.evidence import SLOWNESS
from tests.system.tunnelled import NATTED, TunnelLab, ruled
from topologies.natted import NattedTopo
from topologies.paper import PaperTopo
from topologies.wide import WideTopo

__all__ = ["place", "snoop", "wish"]

IN_THE_VM = os.environ.get("BICAST_VM") == "1"  # setup/vm/inside.sh
client.TIMEOUT_S *= SLOWNESS  # of a request to the controller; each request reads it
# For peer sites: on a slow machine, the copies of a packet arrive further apart.
FLOOR_MS, CEILING_MS = (SLOWNESS * each for each in (load.COPIES.floor_ms, load.COPIES.ceiling_ms))
COPIES = f"\n    copies: {{window_floor_ms: {FLOOR_MS}, window_ceiling_ms: {CEILING_MS}}}"
collect_ignore_glob = [] if IN_THE_VM else ["test_*.py"]
RESULTS = TREE / "results" / "vm"  # on the machine that emulates this one


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        keep_logs(RESULTS / re.sub(r"\W+", "-", f"{item.name}-{report.when}"))
    return report


def keep_logs(place: Path) -> None:
    """Copy the logs of controllers, agents and Open vSwitch."""
    logs = [each for each in isolate.RUN_DIRECTORY.rglob("*log") if each.is_file()]
    for log in logs:
        kept = place / log.relative_to(isolate.RUN_DIRECTORY)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, kept)
    for number, controller in enumerate(SlowController.started):
        place.mkdir(parents=True, exist_ok=True)
        (place / f"controller-{number}.log").write_text(controller.log_text())


class RetryingClient(Client):
    """A client that asks again if the core was too slow to answer and said `try again`."""

    def get(self, *path: str) -> Any:
        for _ in range(SLOWNESS - 1):
            try:
                return super().get(*path)
            except NoAnswer:
                continue
        return super().get(*path)


class SlowController(Controller):
    """A controller with longer timeouts, for an emulated processor."""

    PATIENCE_S = Controller.PATIENCE_S * SLOWNESS
    started: ClassVar[list[Controller]] = []

    def __init__(self, file: Path, settings: str, *, directory: Path) -> None:
        super().__init__(file, settings, directory=directory)
        self.client = RetryingClient(API)
        self.started.append(self)


class PreparedGateway(Gateway):
    """A gateway whose bridge `bicast bridge` makes from a gateway.yaml, without additions."""

    def __init__(self, name: str, file: Path, **options: Any) -> None:
        super().__init__(name, **options)
        self.file = file

    def start(self, controllers: Sequence[Any]) -> None:
        self.silence_linux()
        self.run("./bicast", "bridge", str(self.file))


def on_the_kernel(topo: type[Topo], file: Path, gateway: type[PreparedGateway]) -> Topo:
    """Return the topology without rates and losses: Open vSwitch removes queueing disciplines that it does not know."""

    class OnTheKernel(topo):  # type: ignore[misc,valid-type]
        def addSwitch(self, name: str, **options: Any) -> str:  # Mininet's name
            return str(super().addSwitch(name, **options | {"cls": gateway, "file": file}))

        def addLink(self, *nodes: str, **options: Any) -> Any:  # Mininet's name
            return super().addLink(*nodes, **options | {"forward": UNSHAPED, "backward": UNSHAPED})

    return OnTheKernel()


@contextmanager
def home(
    topo: type[Topo], file: Path, settings: str = "", gateway: type[PreparedGateway] = PreparedGateway
) -> Iterator[GatewayLab]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vm-", dir=isolate.RUN_DIRECTORY)))
        written = place / file.name
        copies = COPIES if "mirrors:" in file.read_text() else ""
        written.write_text(file.read_text().replace("datapath: netdev", f"datapath: system{copies}"))
        running = place / "controller"
        running.mkdir()
        controller = SlowController(written, settings, directory=running)
        controller.start()
        stack.callback(controller.stop)
        net = stack.enter_context(raised(on_the_kernel(topo, controller.file, gateway)))
        controller.await_steady()
        yield GatewayLab(net, controller)


@pytest.fixture(scope="module")
def paper() -> Iterator[GatewayLab]:
    with home(PaperTopo, PAPER) as paper:
        yield paper


@pytest.fixture(scope="module")
def wide() -> Iterator[GatewayLab]:
    with home(WideTopo, WIDE) as wide:
        yield wide


@pytest.fixture(scope="module")
def natted() -> Iterator[TunnelLab]:
    with home(NattedTopo, NATTED, SETTINGS_FOR_HOSTS) as sites, ruled(sites) as both:
        yield both
