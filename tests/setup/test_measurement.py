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


@pytest.mark.parametrize(
    ("rates", "outcome"), [("14 20 19", "2 passed"), ("14 13 12", "1 failed"), ("14 20 12", "1 failed")]
)
def test_the_majority_of_three_attempts_decides_and_all_are_shown(tmp_path: Path, rates: str, outcome: str) -> None:
    ended = run_suite(tmp_path, rates)
    assert (ended.returncode == 0) is (outcome == "2 passed"), ended.stdout
    assert re.findall(r"^    (?:passed|failed): .*?(\d+) > 15", ended.stdout, re.MULTILINE) == rates.split()
    assert outcome in ended.stdout.splitlines()[-1]


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
