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


def test_the_emulator_is_compiled_if_a_source_is_newer_and_kept_after_an_error(tree: Path) -> None:
    program, sources = tree / "build/link-emulator", tree / "lab/links/emulator"
    assert compiled(tree).returncode == 0
    first = program.stat()
    assert compiled(tree).returncode == 0
    assert program.stat() == first
    os.utime(sources / "way.h", ns=(first.st_mtime_ns + 1, first.st_mtime_ns + 1))
    assert compiled(tree).returncode == 0
    assert program.stat().st_ino != first.st_ino
    (sources / "way.c").write_text("int nothing(void) { int unused; }\n")
    done = compiled(tree)
    assert done.returncode != 0 and "way.c" in done.stderr
    assert [file.name for file in (tree / "build").iterdir()] == ["link-emulator"]
