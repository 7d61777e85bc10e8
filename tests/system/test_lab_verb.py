# SPDX-License-Identifier: Apache-2.0
"""`./bicast lab` runs from start to end with a small file and prints the comparison."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from lab.processes.controller import TREE
from lab.stage.isolate import MARK

# The verb with smaller files.
SMALL = (
    "import sys; import cli.lab, cli.lab_home; cli.lab.SIZE_BYTES = 1_000_000; cli.lab_home.SIZE_BYTES = 200_000; "
    "from cli.__main__ import main; sys.exit(main(['lab']))"
)


def said(**environment: str) -> str:
    outside = {name: value for name, value in os.environ.items() if name != MARK}
    done = subprocess.run(
        [sys.executable, "-c", SMALL],
        cwd=TREE,
        env={**outside, "PYTHONPATH": str(TREE), "LAB_ONCE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lab_compares_bicast_off_and_on_and_ends() -> None:
    here, paper = (line.split() for line in said().splitlines() if line.lstrip().startswith(("here,", "paper,")))
    assert here[:3] == ["here,", "1", "MB"] and all(float(figure) > 0 for figure in here[3:])
    assert paper[3:] == ["141.4", "61.3", "0.43"]


@pytest.mark.slow
def test_the_home_lab_compares_relayed_and_direct_terminals() -> None:
    told = said(LAB="home")
    seconds = re.findall(r"^ *(guest|television),.* ([\d.]+) +([\d.]+)$", told, re.MULTILINE)
    assert [name for name, *_ in seconds] == ["guest", "television"], told
    assert "one MPTCP connection from 10.97.1.20 (active) and 10.97.2.20 (backup)" in told
    by_wifi, by_lte = (int(number) for number in re.findall(r"(\d+) by", told))
    assert 0.8 < by_lte / by_wifi < 1.3, told
