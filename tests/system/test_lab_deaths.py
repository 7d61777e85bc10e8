# SPDX-License-Identifier: Apache-2.0
"""A lab ends at once with an error if its switch or controller dies, and leaves no process."""

from __future__ import annotations

import signal

import pytest

from lab.processes.controller import TREE
from tests.system.evidence import until
from tests.system.lab_verb import RunningLab, raised_lab

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


@pytest.mark.slow
def test_a_dead_switch_ends_the_lab_during_a_download() -> None:
    with raised_lab(1_000_000_000) as lab:
        lab.says("Downloading")
        until(lambda: any("curl --silent" in command for command in lab.members().values()), "the download has begun")
        lab.kill(PROGRAMS["ovs-vswitchd"])
        ends_because_of(lab, "ovs-vswitchd")


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
