# SPDX-License-Identifier: Apache-2.0
"""A collected test that does not report fails the run, with and without workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.counted import OF_MAKE_TEST

TREE = Path(__file__).resolve().parents[2]
CONFTEST = """
import pytest
from tests.counted import DeselectionReport, ReportCheck

def pytest_configure(config):
    config.addinivalue_line("markers", "timed: time decides it")
    config.addinivalue_line("markers", "slow: it takes long")
    config.pluginmanager.register(DeselectionReport() if hasattr(config, "workerinput") else ReportCheck())
"""
SILENT = """
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    return True if item.name == "test_silent" else None
"""
WORKERS = pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["without workers", "with a worker"])


def run(place: Path, more: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (place / "conftest.py").write_text(CONFTEST + more)
    (place / "test_two.py").write_text("def test_heard(): pass\ndef test_silent(): pass\n")
    pytest_here = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(place)]
    return subprocess.run([*pytest_here, *arguments, str(place)], cwd=TREE, capture_output=True, text=True)


@WORKERS
def test_an_unreported_test_fails_the_run_and_is_named(tmp_path: Path, workers: tuple[str, ...]) -> None:
    ended = run(tmp_path, SILENT, *workers)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 of 2 collected tests did not report" in ended.stdout
    assert "test_two.py::test_silent: 1 collected" in ended.stdout


@WORKERS
def test_counted_prints_how_many_tests_are_left(tmp_path: Path, workers: tuple[str, ...]) -> None:
    for kind in ("timed", "slow"):
        left = f"import pytest\n@pytest.mark.{kind}\ndef test_{kind}(): assert False\n"
        (tmp_path / f"test_{kind}.py").write_text(left)
    ended = run(tmp_path, "", "-m", OF_MAKE_TEST, *workers)
    assert ended.returncode == 0, ended.stdout
    *_, left, summary = ended.stdout.splitlines()
    assert left == "2 timed or slow tests are left to `make measure`"
    assert "2 passed" in summary
