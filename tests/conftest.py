# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import mininet.log  # noqa: F401 (for what importing it does)
import pytest
from hypothesis import settings

from tests.counted import Counted, Leaving

# How long an example takes says more of what else runs on the machine than of the code. `make test` tries the same
# examples each time; `make measure` draws new ones (tests/measurement.py).
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")

# Mininet, once imported, makes every logger that comes after it one of its own, which says nothing below a warning:
# what the controller logs would depend on which tests ran before.
logging.setLoggerClass(logging.Logger)


def pytest_configure(config: pytest.Config) -> None:
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    config.pluginmanager.register(Leaving() if is_worker else Counted())


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that somebody who is not root may read: tmp_path stands in one that pytest closes to others."""
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
