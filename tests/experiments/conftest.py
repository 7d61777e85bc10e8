# SPDX-License-Identifier: Apache-2.0
"""These tests build the paper's laboratory: pytest starts again in an isolated world, unless it runs in one."""

from __future__ import annotations

import pytest

from lab.stage import isolate


def pytest_configure(config: pytest.Config) -> None:
    if not isolate.inside():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)  # or the second pytest could not write to the terminal
        isolate.enter()
