# SPDX-License-Identifier: Apache-2.0
"""The two sites of topologies/twin.py on the kernel's datapath, with no agents."""

from tests.system.test_twin import *  # noqa: F403
