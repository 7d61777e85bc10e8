# SPDX-License-Identifier: Apache-2.0
"""The tree's root, and functions that run and make programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
Done = subprocess.CompletedProcess[str]


def run(argv: Sequence[str | Path], environment: Mapping[str, str], cwd: Path | None = None) -> Done:
    return subprocess.run(argv, env=environment, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def program(directory: Path, name: str, text: str) -> None:
    """Put a shell program of this name where PATH finds it first."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
