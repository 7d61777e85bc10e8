"""A lab whose switch or controller dies ends at once and says so, whatever it was doing; nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from experiments.running import TREE
from tests.system.evidence import until
from topologies.isolate import MARK

ENDS_WITHIN_S = 15  # of taking down the rest; an Open vSwitch that is waited for takes 20 s to be given up
PROGRAMS = {
    "ovs-vswitchd": "ovs-vswitchd",
    "ovsdb-server": "ovsdb-server",
    "controller": "-m controller",
}


def lab(size_bytes: int) -> str:
    """The verb as people call it, but for the size of the file."""
    return (
        f"import sys; import cli.lab; cli.lab.SIZE_BYTES = {size_bytes}; from cli.__main__ import main; "
        "sys.exit(main(['lab']))"
    )


class Raised:
    def __init__(self, mark: str, process: subprocess.Popen[str]) -> None:
        self._mark = f"BICAST_TREE={mark}".encode()
        self.process = process

    def says(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if word in line:
                return
        raise AssertionError(f"it ended without {word!r}: {self.process.communicate()[1]}")

    def members(self) -> dict[int, str]:
        """Its processes, wherever they live, with their command lines."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark in (process / "environ").read_bytes().split(b"\0"):
                    found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended while it was looked at
        return found

    def kill(self, program: str) -> None:
        (pid,) = [pid for pid, command in self.members().items() if program in command]
        os.kill(pid, signal.SIGKILL)


@contextmanager
def raised_lab(size_bytes: int) -> Iterator[Raised]:
    mark = f"/{uuid4()}"
    outside = {name: value for name, value in os.environ.items() if name not in (MARK, "LAB_ONCE")}
    with subprocess.Popen(
        [sys.executable, "-c", lab(size_bytes)],
        cwd=TREE,
        env={**outside, "PYTHONPATH": str(TREE), "BICAST_TREE": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Raised(mark, process)
        finally:
            process.kill()


def ends_because_of(lab: Raised, name: str) -> None:
    _, complaint = lab.process.communicate(timeout=ENDS_WITHIN_S)
    assert lab.process.returncode == 1
    (sentence,) = complaint.splitlines()
    log = TREE / "results" / "lab" / f"{name}.log"
    assert sentence.startswith(f"bicast: {name} has died")
    assert str(log) in sentence
    assert log.read_text()
    until(lambda: not lab.members(), "nothing of it lives")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_death_while_the_lab_waits_ends_it(name: str) -> None:
    with raised_lab(1_000_000) as lab:
        lab.says("The lab stands until Ctrl-C")
        lab.kill(PROGRAMS[name])
        ends_because_of(lab, name)


def test_a_death_under_a_download_ends_it() -> None:
    with raised_lab(1_000_000_000) as lab:
        lab.says("Downloading")
        until(lambda: any("curl --silent" in command for command in lab.members().values()), "the download has begun")
        lab.kill(PROGRAMS["ovs-vswitchd"])
        ends_because_of(lab, "ovs-vswitchd")


def test_ctrl_c_is_no_death() -> None:
    with raised_lab(1_000_000) as lab:
        lab.says("The lab stands until Ctrl-C")
        lab.process.send_signal(signal.SIGINT)
        _, complaint = lab.process.communicate(timeout=ENDS_WITHIN_S)
        assert (lab.process.returncode, complaint) == (130, "")
        until(lambda: not lab.members(), "nothing of it lives")
