# SPDX-License-Identifier: Apache-2.0
"""The paper's lab on the kernel's datapath."""

import pytest

from tests.system import test_controller_restart
from tests.system.conftest import GatewayLab
from tests.system.test_paper_lab import *  # noqa: F403


@pytest.fixture(scope="module")
def home(paper: GatewayLab) -> GatewayLab:
    return paper


test_a_dead_port_is_bypassed_without_a_controller = (
    test_controller_restart.test_a_dead_port_is_bypassed_without_a_controller
)
