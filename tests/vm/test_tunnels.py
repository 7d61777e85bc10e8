# SPDX-License-Identifier: Apache-2.0
"""Tunnels are system ports of the kernel's datapath like any other."""

import pytest

from tests.system.test_tunnels import *  # noqa: F403
from tests.system.tunnelled import TunnelLab


@pytest.fixture(scope="module")
def tunnelled(natted: TunnelLab) -> TunnelLab:
    """Override the fixture of tests/system: the same tests run in the lab of the virtual machine."""
    return natted
