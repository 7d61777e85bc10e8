# SPDX-License-Identifier: Apache-2.0
"""A timed test that fails is measured twice more. The majority of its three attempts decides."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.place import TREE

# One figure for each attempt. The file keeps the figures of later attempts.
SUITE = """
import pathlib, pytest

FIGURES = pathlib.Path(__file__).with_name("figures")

@pytest.fixture(scope="module")
def world():
    return FIGURES.read_text().split()

@pytest.mark.timed
def test_rate(world):
    rate = int(world[0])
    FIGURES.write_text(" ".join(world[1:] or world))
    assert rate > 15

def test_always():
    assert True
"""
MARKER = "[pytest]\nmarkers = timed: time decides it\n"


def run_suite(place: Path, figures: str, suite: str = SUITE) -> subprocess.CompletedProcess[str]:
    (place / "test_one.py").write_text(suite)
    (place / "figures").write_text(figures)
    (place / "pytest.ini").write_text(MARKER)
    plugin = ("-p", "tests.measurement", "-o", "enable_assertion_pass_hook=true", "-p", "no:cacheprovider")
    words = [sys.executable, "-m", "pytest", *plugin, "--rootdir", str(place), "-c", str(place / "pytest.ini")]
    return subprocess.run([*words, str(place)], cwd=TREE, capture_output=True, text=True)


def figures(text: str) -> list[str]:
    return re.findall(r"^    (passed|failed): .*?(\d+) > 15", text, re.MULTILINE)


def test_measurement_passes_when_two_of_three_attempts_pass(tmp_path: Path) -> None:
    ended = run_suite(tmp_path, "14 20 19")
    assert ended.returncode == 0, ended.stdout
    assert figures(ended.stdout) == [("failed", "14"), ("passed", "20"), ("passed", "19")]
    assert "2 passed" in ended.stdout.splitlines()[-1]


@pytest.mark.parametrize("rates", ["14 13 12", "14 20 12"])
def test_measurement_fails_when_two_of_three_attempts_fail(tmp_path: Path, rates: str) -> None:
    ended = run_suite(tmp_path, rates)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert [rate for _, rate in figures(ended.stdout)] == rates.split()
    assert "1 failed, 1 passed" in ended.stdout.splitlines()[-1]


def test_measurement_sets_up_a_world_again_after_a_failure(tmp_path: Path) -> None:
    broken = """
    rates = FIGURES.read_text().split()
    if rates[0] == "0":
        FIGURES.write_text(" ".join(rates[1:]))
        raise OSError("no world")
    return rates"""
    ended = run_suite(tmp_path, "0 20 19", SUITE.replace("\n    return FIGURES.read_text().split()", broken))
    assert ended.returncode == 0, ended.stdout
    assert "    failed: OSError: no world" in ended.stdout
    assert "2 passed" in ended.stdout.splitlines()[-1]
