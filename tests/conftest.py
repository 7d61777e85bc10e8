"""What holds for all tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from pathlib import Path

import mininet.log  # noqa: F401 (for what importing it does)
import pytest
from hypothesis import settings

from tests.counted import Counted
from tests.turns import Turns

# How long an example takes says more of what else runs on the machine than of the code.
settings.register_profile("anywhere", deadline=None)
settings.load_profile("anywhere")

# Mininet, once imported, makes every logger that comes after it one of its own, which says nothing below a warning:
# what the controller logs would depend on which tests ran before.
logging.setLoggerClass(logging.Logger)

IS_ONE_OF_SEVERAL = "PYTEST_XDIST_WORKER" in os.environ
TURNS = Turns(Path(__file__).parents[1] / "build" / "turns") if IS_ONE_OF_SEVERAL else None


def pytest_configure(config: pytest.Config) -> None:
    if not IS_ONE_OF_SEVERAL:
        config.pluginmanager.register(Counted())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if TURNS is None:
        return (yield)
    with TURNS.taken(alone=item.get_closest_marker("alone") is not None):
        return (yield)
