# SPDX-License-Identifier: Apache-2.0
"""These tests build the paper's laboratory: pytest starts again in a world of its own, unless it is in one."""

from __future__ import annotations

import pytest

from lab.stage import isolate


def pytest_configure(config: pytest.Config) -> None:
    if not isolate.inside():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)  # or the second pytest's words would be kept from the terminal
        isolate.enter()
