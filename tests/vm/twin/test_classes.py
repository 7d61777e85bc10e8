# SPDX-License-Identifier: Apache-2.0
"""Classes of traffic on the kernel's datapath."""

from tests.system.test_classes import *  # noqa: F403
