# SPDX-License-Identifier: Apache-2.0
"""Go's tests that time decides: `make measure` runs them one by one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.setup.place import TREE

pytestmark = pytest.mark.timed

TIMED = re.compile(r"^func (TestTimed\w*)\(", re.MULTILINE)
PATIENCE_S = 300


def timed() -> Iterator[tuple[str, str]]:
    """Yield package and name of each timed test."""
    for file in TREE.glob("[!.]*/**/*_test.go"):
        for name in TIMED.findall(file.read_text()):
            yield f"./{file.parent.relative_to(TREE)}", name


@pytest.mark.parametrize(("package", "name"), sorted(timed()))
def test_go(package: str, name: str) -> None:
    words = ["setup/go.sh", "test", "-count=1", "-run", f"^{name}$", package]
    done = subprocess.run(words, cwd=TREE, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout[-2000:]
