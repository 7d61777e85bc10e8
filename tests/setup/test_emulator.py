# SPDX-License-Identifier: Apache-2.0
"""setup/emulator.sh compiles the link emulator when it must, and only then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.setup.place import TREE, Done, run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("setup", "lab/links/emulator"):
        shutil.copytree(TREE / name, tmp_path / name)
    return tmp_path


def compiled(tree: Path) -> Done:
    return run([tree / "setup/emulator.sh"], os.environ, cwd=Path("/"))


def test_emulator_is_recompiled_only_when_a_source_is_newer(tree: Path) -> None:
    program = tree / "build/link-emulator"
    assert compiled(tree).returncode == 0
    first = program.stat()
    assert compiled(tree).returncode == 0
    assert program.stat() == first
    os.utime(tree / "lab/links/emulator/way.h", ns=(first.st_mtime_ns + 1, first.st_mtime_ns + 1))
    assert compiled(tree).returncode == 0
    assert program.stat().st_ino != first.st_ino


def test_a_compile_error_keeps_the_last_program(tree: Path) -> None:
    assert compiled(tree).returncode == 0
    (tree / "lab/links/emulator/way.c").write_text("int nothing(void) { int unused; }\n")
    done = compiled(tree)
    assert done.returncode != 0
    assert "way.c" in done.stderr
    assert [file.name for file in (tree / "build").iterdir()] == ["link-emulator"]
