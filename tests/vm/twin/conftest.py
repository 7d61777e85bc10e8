# SPDX-License-Identifier: Apache-2.0
"""Two peer sites on the kernel's datapath, set up once because that takes long there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lab.processes.agents import SETTINGS
from lab.stage import ovs
from tests.system.conftest import TWIN, GatewayLab, greeted
from tests.vm.conftest import IN_THE_VM, PreparedGateway, home
from topologies.twin import TwinTopo

collect_ignore_glob = [] if IN_THE_VM else ["test_*.py"]


class LossyGateway(PreparedGateway):
    """A gateway whose ports keep netem's losses: QoS of type linux-noop makes Open vSwitch leave their queues alone."""

    def start(self, controllers: Sequence[Any]) -> None:
        super().start(controllers)
        for name in self.intfNames():
            if name != "lo":
                noop = ("--id=@qos", "create", "QoS", "type=linux-noop")
                ovs.vsctl("--", *noop, "--", "set", "Port", name, "qos=@qos")


@pytest.fixture(scope="package")
def twin() -> Iterator[GatewayLab]:
    with home(TwinTopo, TWIN, SETTINGS, LossyGateway) as twin:
        twin.returns_soon()
        greeted(twin)
        yield twin
