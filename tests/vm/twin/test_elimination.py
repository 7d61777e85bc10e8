# SPDX-License-Identifier: Apache-2.0
"""Copies on the kernel's datapath: programs at its ports see what comes in before the bridge does."""

from tests.system.test_elimination import *  # noqa: F403
