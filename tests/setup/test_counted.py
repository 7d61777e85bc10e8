# SPDX-License-Identifier: Apache-2.0
"""A collected test that does not report fails the run, with and without workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.place import TREE

CONFTEST = """
import pytest
from tests.counted import DeselectionReport, ReportCheck

def pytest_configure(config):
    config.pluginmanager.register(DeselectionReport() if hasattr(config, "workerinput") else ReportCheck())

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    return True if item.name == "test_silent" else None
"""


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["without workers", "with a worker"])
def test_an_unreported_test_fails_the_run_and_is_named(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_two.py").write_text("def test_heard(): pass\ndef test_silent(): pass\n")
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *workers]
    ended = subprocess.run([*words, str(tmp_path)], cwd=TREE, capture_output=True, text=True)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 of 2 collected tests did not report" in ended.stdout
    assert "test_two.py::test_silent: 1 collected" in ended.stdout
