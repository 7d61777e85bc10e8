# SPDX-License-Identifier: Apache-2.0
"""Fixtures and settings of all tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import mininet.log  # noqa: F401 (imported for its side effect)
import pytest
from hypothesis import settings

from tests.counted import DeselectionReport, ReportCheck

# The time of an example depends more on the machine's load than on the code. `make test` tries the same examples each
# time; `make measure` draws new ones (tests/measurement.py).
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")

# Mininet's import makes later loggers instances of its own class, which drops everything below a warning. Without this
# line, the controller's log would depend on the tests that ran before.
logging.setLoggerClass(logging.Logger)


def pytest_configure(config: pytest.Config) -> None:
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    config.pluginmanager.register(DeselectionReport() if is_worker else ReportCheck())


@pytest.fixture
def public_path() -> Iterator[Path]:
    """Yield a directory that other users may read. pytest closes the parent of tmp_path to them."""
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
