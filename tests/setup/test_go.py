# SPDX-License-Identifier: Apache-2.0
"""setup/go.sh uses the machine's Go if it is recent enough, else a download with a known checksum."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.setup.place import TREE, Done, program, run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree whose go.mod asks for a newer Go than this machine has outside the tree's PATH."""
    shutil.copytree(TREE / "setup", tmp_path / "setup")
    (tmp_path / "go.mod").write_text("module bicast\n\ngo 9.24.0\n")
    return tmp_path


def go(tree: Path) -> Done:
    return run([tree / "setup/go.sh", "version"], dict(os.environ, PATH=f"{tree / 'bin'}:{os.environ['PATH']}"))


def has(tree: Path, version: str) -> None:
    program(tree / "bin", "go", f'[ "$1 $2" = "env GOVERSION" ] && echo go{version} || echo "go {version} does $*"')


@pytest.mark.parametrize("version", ["9.24.0", "9.24.1", "9.100.0", "10.0.0"])
def test_a_recent_go_is_used(tree: Path, version: str) -> None:
    has(tree, version)
    assert go(tree).stdout == f"go {version} does version\n"


@pytest.mark.parametrize("version", ["9.23.9", "9.3.0", "1.19.8"])
def test_a_fetched_go_must_have_the_known_checksum(tree: Path, version: str) -> None:
    has(tree, version)
    program(tree / "bin", "curl", 'while [ "$1" != --output ]; do shift; done; echo something else >"$2"')
    done = go(tree)
    assert done.returncode != 0
    assert "is not what we know by its SHA-256" in done.stderr
    assert {path.name for path in (tree / ".go").iterdir()} <= {"config"}  # made by `go env`
