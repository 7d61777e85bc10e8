# SPDX-License-Identifier: Apache-2.0
"""`./bicast lab` prints the comparison. It ends at once if its switch or controller dies, and leaves no process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from lab.processes.controller import TREE
from lab.stage.isolate import MARK
from tests.system.evidence import until
from tests.system.lab_verb import RunningLab, lab_program, raised_lab

ENDS_WITHIN_S = 45  # below the 60 s timeout for Open vSwitch: a death must be detected, not time out
PROGRAMS = {
    "ovs-vswitchd": "ovs-vswitchd",
    "ovsdb-server": "ovsdb-server",
    "controller": "-m controller",
}


def ends_because_of(lab: RunningLab, name: str) -> None:
    _, complaint = lab.process.communicate(timeout=ENDS_WITHIN_S)
    assert lab.process.returncode == 1
    (sentence,) = complaint.splitlines()
    log = TREE / "results" / "lab" / f"{name}.log"
    assert sentence.startswith(f"bicast: {name} has died")
    assert str(log) in sentence
    assert log.read_text()
    until(lambda: not lab.members(), "nothing of it lives")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_dead_process_ends_the_waiting_lab(name: str) -> None:
    with raised_lab(1_000_000) as lab:
        lab.says("The lab runs until Ctrl-C")
        lab.kill(PROGRAMS[name])
        ends_because_of(lab, name)


def test_ctrl_c_ends_the_lab_without_an_error() -> None:
    with raised_lab(1_000_000) as lab:
        lab.says("The lab runs until Ctrl-C")
        lab.process.send_signal(signal.SIGINT)
        _, complaint = lab.process.communicate(timeout=ENDS_WITHIN_S)
        assert (lab.process.returncode, complaint) == (130, "")
        until(lambda: not lab.members(), "nothing of it lives")


def test_kill_9_leaves_no_process_of_the_lab() -> None:
    with raised_lab(1_000_000) as lab:
        lab.says("The lab runs until Ctrl-C")
        commands = "\n".join(lab.members().values())
        assert (commands.count("bicast-agent run"), commands.count(" guard ")) == (2, 1)
        lab.process.kill()
        until(lambda: not lab.members(), "nothing of it lives")


def said(**environment: str) -> str:
    outside = {name: value for name, value in os.environ.items() if name != MARK}
    done = subprocess.run(
        [sys.executable, "-c", lab_program(1_000_000)],
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
