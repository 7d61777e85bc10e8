# SPDX-License-Identifier: Apache-2.0
"""The package's Python libraries are those of the tests: the same versions, each with hashes."""

from __future__ import annotations

import re

import pytest

from tests.setup.place import TREE


def versions(name: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==(\S+)", (TREE / name).read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", library).lower(): version for library, version in found}


def test_the_package_has_the_tested_versions() -> None:
    locked, tested = versions("deploy/debian/python.lock"), versions("constraints.txt")
    laboratory = versions("deploy/debian/python-lab.lock")
    assert locked.items() | laboratory.items() <= tested.items()
    assert versions("requirements.txt").items() <= locked.items()
    assert not locked.keys() & laboratory.keys()


@pytest.mark.parametrize("name", ["python", "python-lab"])
def test_each_library_of_the_package_has_hashes(name: str) -> None:
    text = (TREE / f"deploy/debian/{name}.lock").read_text()
    for library in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", library), library
