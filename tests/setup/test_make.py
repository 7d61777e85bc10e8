# SPDX-License-Identifier: Apache-2.0
"""`make test` leaves no process behind if the terminal or the kernel ends it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.setup.place import TREE, program
from tests.system.evidence import until
from tests.system.lab_verb import processes_of

# A suite that starts a process, reports it and does not end.
ENDLESS = """
import pathlib, subprocess

def test_endless():
    child = subprocess.Popen(["sleep", "infinity"])
    pathlib.Path("started").write_text("")
    child.wait()
"""
ENDS_WITHIN_S = 60


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a tree with the real Makefile and test run, and nothing to set up or to check."""
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # set by a make that runs these tests
        monkeypatch.delenv(name, raising=False)
    for name in ("setup", "topologies", "lab"):
        shutil.copytree(TREE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TREE / "Makefile", tmp_path)
    for name in ("setup.sh", "check.sh", "check-go.sh", "go.sh", "ryu.sh"):
        program(tmp_path / "setup", name, "exit 0")
    (tmp_path / ".venv").symlink_to(TREE / ".venv")
    (tmp_path / "tests").mkdir()
    shutil.copy(TREE / "tests" / "measurement.py", tmp_path / "tests")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-p no:cacheprovider'\n")
    return tmp_path


@contextmanager
def endless_run(tree: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tree / "test_endless.py").write_text(ENDLESS)
    with subprocess.Popen(
        ["make", "test"],
        cwd=tree,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as make:
        assert make.stdout is not None
        try:
            while not (tree / "started").exists():
                ready, _, _ = select.select([make.stdout], [], [], 0.05)
                assert not ready or os.read(make.stdout.fileno(), 65536), "make ended before the suite began"
            yield make
        finally:
            if make.poll() is None:
                os.killpg(make.pid, signal.SIGKILL)


def test_killing_make_ends_the_whole_run(tree: Path) -> None:
    with endless_run(tree) as make:
        assert any("sleep infinity" in command for command in processes_of(str(tree)).values())
        make.kill()
        until(lambda: not processes_of(str(tree)), "the whole run has ended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_from_the_terminal_ends_the_whole_run(tree: Path, number: signal.Signals) -> None:
    with endless_run(tree) as make:
        os.killpg(make.pid, number)
        until(lambda: not processes_of(str(tree)), "the whole run has ended")
        assert make.wait(ENDS_WITHIN_S) != 0


def test_a_failing_test_fails_make_and_ends_its_output(tree: Path) -> None:
    (tree / "test_bad.py").write_text("def test_bad():\n    assert False\n")
    done = subprocess.run(["make", "test"], cwd=tree, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert "1 failed" in done.stdout.splitlines()[-1]


ALL_KINDS = """
import pathlib, pytest

@pytest.fixture(autouse=True)
def note(request):
    with pathlib.Path("ran").open("a") as ran:
        print(request.node.name, file=ran)

@pytest.mark.timed
def test_timed(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.parametrize("rate", [1, pytest.param(2, marks=pytest.mark.timed)])
def test_rate(rate): pass

def test_always(): pass
"""


def test_every_test_runs_in_make_test_or_make_measure(tree: Path) -> None:
    (tree / "test_all.py").write_text(ALL_KINDS)
    for verb, expected in (
        ("test", ["test_always", "test_rate[1]"]),
        ("measure", ["test_rate[2]", "test_slow", "test_timed"]),
    ):
        (tree / "ran").unlink(missing_ok=True)
        done = subprocess.run(["make", verb], cwd=tree, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{len(expected)} passed" in done.stdout.splitlines()[-1]
        assert sorted((tree / "ran").read_text().split()) == expected
