# SPDX-License-Identifier: Apache-2.0
"""Versions are those of tags, they ascend as dpkg compares them, and the programs print them."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.setup.place import TREE


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "setup").mkdir()
    shutil.copy(TREE / "setup/version.sh", tmp_path / "setup")
    git(tmp_path, "init", "--quiet")
    committed(tmp_path, "first")
    return tmp_path


def git(tree: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    return subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def committed(tree: Path, text: str) -> str:
    (tree / "file").write_text(text)
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message", text)
    return git(tree, "rev-parse", "--short", "HEAD")


def version(tree: Path, *words: str) -> str:
    done = subprocess.run([tree / "setup/version.sh", *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_versions_follow_tags_and_ascend(tree: Path) -> None:
    first = git(tree, "rev-parse", "--short", "HEAD")
    found = [version(tree)]
    git(tree, "tag", "v1.2.0")
    found.append(version(tree))
    second = committed(tree, "second")
    found.append(version(tree))
    (tree / "file").write_text("third")
    found.append(version(tree))
    git(tree, "commit", "--quiet", "--all", "--message", "third")
    git(tree, "tag", "v1.2.1")
    found.append(version(tree))
    (tree / "file").write_text("fourth")
    found.append(version(tree))
    assert found == [
        f"0.0.0+1.g{first}", "1.2.0", f"1.2.0+1.g{second}", f"1.2.0+1.g{second}.dirty", "1.2.1", "1.2.1+dirty"
    ]  # fmt: skip
    for earlier, later in pairwise(found):
        subprocess.run(["dpkg", "--compare-versions", earlier, "lt", later], check=True)


def test_a_tree_without_git_is_unreleased(tree: Path) -> None:
    shutil.rmtree(tree / ".git")
    assert version(tree) == "0.0.0+unreleased"


def test_the_file_is_written_only_if_the_version_changed(tree: Path) -> None:
    file = tree / ".git" / "version.txt"
    version(tree, str(file))
    before = file.stat().st_mtime_ns
    version(tree, str(file))
    assert (file.read_text().strip(), file.stat().st_mtime_ns) == (version(tree), before)
