# SPDX-License-Identifier: Apache-2.0
"""`make clean` ends the runs of its own tree, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.setup.place import TREE, run

WORLD = ("unshare", "--pid", "--fork", "--kill-child=KILL")


@contextmanager
def running(tree: Path, *prefix: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a running process that carries the mark of that tree."""
    process = subprocess.Popen(
        [*prefix, "sh", "-c", "echo here; exec sleep infinity"],
        env=dict(os.environ, BICAST_TREE=str(tree)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "here\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    shutil.copytree(TREE / "setup", tree / "setup")
    return tree


def test_clean_ends_runs_of_this_tree_only(tree: Path) -> None:
    with ExitStack() as stack:
        ours = stack.enter_context(running(tree, *WORLD))
        neighbour = stack.enter_context(running(tree / "other", *WORLD))
        service = stack.enter_context(running(tree))
        done = run([tree / "setup/clean.sh"], os.environ)
        assert done.returncode == 0, done.stderr
        assert ours.wait(60) != 0
        assert neighbour.poll() is None
        assert service.poll() is None  # a controller in service runs in no namespace of ours


def test_clean_spares_a_container_at_the_same_path(tree: Path) -> None:
    elsewhere = ("sh", "-ec", f'mount -t tmpfs none {tree}; exec "$@"', "sh")
    with ExitStack() as stack:
        container = stack.enter_context(running(tree, *WORLD, "--uts"))
        other_tree = stack.enter_context(running(tree, *WORLD, "--mount", *elsewhere))
        done = run([tree / "setup/clean.sh"], os.environ)
        assert (done.returncode, done.stdout) == (0, "")
        assert container.poll() is None
        assert other_tree.poll() is None


def test_clean_removes_build_products_and_keeps_sources(tree: Path) -> None:
    for name in (
        ".venv/bin",
        ".venv-ryu",
        ".vm",
        ".go/1.26.8",
        "build",
        "results/transfer",
        "controller/__pycache__",
        ".vagrant/machines",
    ):
        (tree / name).mkdir(parents=True)
    sources = [tree / "controller/__main__.py", tree / "agent/elimination/elimination.go"]
    sources[1].parent.mkdir(parents=True)
    for file in (*sources, sources[1].with_name("eliminate.bpf.o")):
        file.touch()
    assert run([tree / "setup/clean.sh"], os.environ).returncode == 0
    assert {path.name for path in tree.iterdir()} == {"setup", "controller", "agent", ".vagrant"}
    assert [list(source.parent.iterdir()) for source in sources] == [[source] for source in sources]
