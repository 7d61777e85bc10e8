# SPDX-License-Identifier: Apache-2.0
"""Two sites at the ends of the same uplinks on the kernel's datapath: raised once, for raising takes long there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lab.processes.agents import SETTINGS
from lab.stage import ovs
from tests.system.conftest import TWIN, Home, greeted
from tests.vm.conftest import IN_THE_VM, Prepared, home
from topologies.twin import TwinTopo

collect_ignore_glob = [] if IN_THE_VM else ["test_*.py"]


class Lossy(Prepared):
    """One whose ports lose what their links shall lose: Open vSwitch is told to leave their queues alone."""

    def start(self, controllers: Sequence[Any]) -> None:
        super().start(controllers)
        for name in self.intfNames():
            if name != "lo":
                noop = ("--id=@qos", "create", "QoS", "type=linux-noop")
                ovs.vsctl("--", *noop, "--", "set", "Port", name, "qos=@qos")


@pytest.fixture(scope="package")
def twin() -> Iterator[Home]:
    with home(TwinTopo, TWIN, SETTINGS, Lossy) as twin:
        twin.returns_soon()
        greeted(twin)
        yield twin
