# SPDX-License-Identifier: Apache-2.0
"""Two peer sites on the kernel's datapath, set up once because that takes long there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.processes.agents import SETTINGS
from lab.stage.kernel import LossyGateway
from tests.system.conftest import TWIN, GatewayLab, greeted
from tests.vm.conftest import IN_THE_VM, home
from topologies.twin import TwinTopo

collect_ignore_glob = [] if IN_THE_VM else ["test_*.py"]


@pytest.fixture(scope="package")
def twin() -> Iterator[GatewayLab]:
    with home(TwinTopo, TWIN, SETTINGS, LossyGateway) as twin:
        twin.returns_soon()
        greeted(twin)
        yield twin
