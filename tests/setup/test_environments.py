# SPDX-License-Identifier: Apache-2.0
"""setup/venv.sh makes an environment once and updates it when needed. It and the package have the pinned versions."""

from __future__ import annotations

import os
import re
import shutil
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.setup.place import TREE, Done, run


def make(directory: Path) -> Done:
    # Without an index, pip fails if it looks for anything.
    environment = dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(directory))
    done = run([TREE / "setup/venv.sh", "venv", "requirements.txt", "constraints.txt"], environment, cwd=directory)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("venv")
    for name in ("requirements.txt", "constraints.txt"):
        (directory / name).write_text("# nothing\n")
    assert "making venv" in make(directory).stdout
    return directory


def test_changed_requirements_update_the_environment(made: Path) -> None:
    kept = made / "venv/kept"
    kept.touch()
    (made / "requirements.txt").write_text("# nothing, said otherwise\n")
    assert "making venv" in make(made).stdout
    assert kept.exists()
    assert make(made).stdout == ""


@pytest.mark.slow
def test_a_moved_environment_is_rebuilt(made: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(made, moved, symlinks=True)
    make(moved)
    assert str(moved) in (moved / "venv/bin/pip").read_text()


def test_a_failed_installation_is_retried(made: Path) -> None:
    (made / "requirements.txt").write_text("no-such-distribution==1\n")
    environment = dict(os.environ, PIP_NO_INDEX="1")
    command: list[str | Path] = [TREE / "setup/venv.sh", "venv", "requirements.txt", "constraints.txt"]
    assert run(command, environment, cwd=made).returncode != 0
    assert run(command, environment, cwd=made).returncode != 0
    (made / "requirements.txt").write_text("# nothing\n")
    assert "making venv" in make(made).stdout


def pins(name: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==(\S+)", (TREE / name).read_text(), re.MULTILINE)
    return {canonical(library): version for library, version in found}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(names: list[str]) -> set[str]:
    """Return these distributions and their dependencies on this machine."""
    found: set[str] = set()
    while names:
        name = canonical(names.pop())
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                names.append(requirement.name)
    return found


def test_requirements_and_their_dependencies_are_pinned() -> None:
    required = {**pins("requirements.txt"), **pins("requirements-dev.txt")}
    held = pins("constraints.txt")
    assert needed(list(required)) <= held.keys()
    assert {name: held[name] for name in required} == required


def test_installed_versions_equal_the_pins() -> None:
    held = pins("constraints.txt")
    assert {name: distribution(name).version for name in held} == held


def test_the_package_has_the_tested_versions() -> None:
    locked, tested = pins("deploy/debian/python.lock"), pins("constraints.txt")
    laboratory = pins("deploy/debian/python-lab.lock")
    assert locked.items() | laboratory.items() <= tested.items()
    assert pins("requirements.txt").items() <= locked.items()
    assert not locked.keys() & laboratory.keys()


@pytest.mark.parametrize("name", ["python", "python-lab"])
def test_each_library_of_the_package_has_hashes(name: str) -> None:
    text = (TREE / f"deploy/debian/{name}.lock").read_text()
    for library in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", library), library
