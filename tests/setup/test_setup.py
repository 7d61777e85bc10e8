"""setup/setup.sh runs its parts, and says before the first of them what they take where nothing is made yet."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.setup.place import TREE, program, run

LONG = "setup: the first time this takes some minutes"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The real script; its parts only say their names."""
    (tmp_path / "setup").mkdir()
    shutil.copy(TREE / "setup/setup.sh", tmp_path / "setup")
    for part in ("packages", "venv", "emulator", "agent"):
        program(tmp_path / "setup", f"{part}.sh", f"echo {part}")
    return tmp_path


def said(tree: Path) -> list[str]:
    done = run([tree / "setup/setup.sh"], os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_first_line_of_the_first_time_says_that_it_takes_minutes(tree: Path) -> None:
    first, *parts = said(tree)
    assert first.startswith(LONG) and {"packages", "venv", "emulator", "agent"} <= set(parts)
    program(tree / "build", "bicast-agent", "")
    (tree / ".venv/bin").mkdir(parents=True)
    program(tree / ".venv/bin", "python", "")
    assert not any(line.startswith(LONG) for line in said(tree))
