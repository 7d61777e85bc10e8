# SPDX-License-Identifier: Apache-2.0
"""These tests build networks: pytest starts again in an isolated world, unless it runs in one."""

from __future__ import annotations

import os

import pytest

from lab.stage import isolate


def pytest_configure(config: pytest.Config) -> None:
    if not isolate.inside():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)  # or the second pytest could not write to the terminal
        isolate.enter()


@pytest.fixture
def outside() -> dict[str, str]:
    """Return the environment without the mark of a world."""
    root = str(isolate.Path(__file__).parents[2])
    return {name: value for name, value in os.environ.items() if name != isolate.MARK} | {"PYTHONPATH": root}
