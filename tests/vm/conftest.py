# SPDX-License-Identifier: Apache-2.0
"""The promises that hold on Open vSwitch's userspace datapath hold on the kernel's, on bridges made by `bicast bridge`.

These tests need a kernel with that datapath and netem: `make vm` boots one. Elsewhere they are not collected.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from mininet.topo import Topo

from controller.edges.config import load
from lab.processes.agents import SETTINGS_FOR_HOSTS
from lab.processes.controller import TREE
from lab.processes.slow import SLOWNESS, SlowController
from lab.stage import isolate
from lab.stage.kernel import PreparedGateway, on_the_kernel
from lab.stage.stage import raised
from tests.system.conftest import PAPER, WIDE, GatewayLab, place, snoop, wish
from tests.system.tunnelled import NATTED, TunnelLab, ruled
from topologies.natted import NattedTopo
from topologies.paper import PaperTopo
from topologies.wide import WideTopo

__all__ = ["place", "snoop", "wish"]

IN_THE_VM = os.environ.get("BICAST_VM") == "1"  # setup/vm/inside.sh
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
