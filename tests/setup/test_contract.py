# SPDX-License-Identifier: Apache-2.0
"""The committed Go and Python files of the contract equal what its tools generate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.setup.place import TREE, run


def generated(root: Path) -> dict[str, str]:
    made = [*root.glob("api/*_pb2*.py*"), *root.glob("api/agentv1/*.go")]
    return {str(path.relative_to(root)): path.read_text() for path in made}


@pytest.mark.slow
def test_committed_files_equal_generated_files(tmp_path: Path) -> None:
    done = run([TREE / "setup/proto.sh", tmp_path], os.environ)
    assert done.returncode == 0, done.stderr
    made = generated(tmp_path)
    assert len(made) == 5
    assert generated(TREE) == made, "api/agent.proto was changed: run setup/proto.sh, and commit what it makes"
