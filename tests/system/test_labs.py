"""A lab that is killed at any moment leaves nothing that the next one trips over."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.processes.controller import TREE
from lab.stage import isolate

LAB = str(Path(__file__).with_name("lab_to_kill.py"))
COMPLETE_S = 60.0
DICE = random.Random(2)


def start() -> subprocess.Popen[str]:
    """In the state in which people find the machine: knowing nothing of the world that the tests are in."""
    outside = {name: value for name, value in os.environ.items() if name != isolate.MARK}
    outside["PYTHONPATH"] = str(TREE)
    return subprocess.Popen([sys.executable, LAB], env=outside, stdout=subprocess.PIPE, text=True)


def proves_itself(lab: subprocess.Popen[str]) -> None:
    assert lab.stdout is not None
    assert select.select([lab.stdout], [], [], COMPLETE_S)[0], "the lab did not come up"
    assert lab.stdout.readline() == "reached\n"


@pytest.mark.slow
def test_two_labs_one_after_the_other() -> None:
    for _ in range(2):
        with start() as lab:
            proves_itself(lab)
            lab.send_signal(signal.SIGTERM)
            assert lab.wait(COMPLETE_S) == 0


@pytest.mark.parametrize("moment_s", [round(DICE.uniform(0.05, 4.0), 2) for _ in range(3)])
def test_a_lab_killed_at_a_random_moment_leaves_the_next_one_alone(moment_s: float) -> None:
    with start() as lab:
        assert lab.stdout is not None
        select.select([lab.stdout], [], [], moment_s)
        lab.kill()
    with start() as lab:
        proves_itself(lab)
        lab.kill()
