# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
SUFFIXES = {".py", ".pyi", ".go", ".c", ".h", ".sh", ".proto", ".rb", ".js", ".css"}
NAMES = {"Makefile", "Vagrantfile"}
NOT_SOURCE = {"build", "results", "testdata", "__pycache__"}
OTHERS = {Path("web/preact.js")}  # unchanged; its licence is beside it
GENERATED_IN = "api"  # from agent.proto, which has the line
FIRST_LINES = 3


def sources() -> Iterator[Path]:
    for folder, below, names in os.walk(TREE):
        below[:] = [each for each in below if not each.startswith(".") and each not in NOT_SOURCE]
        for path in (Path(folder, name) for name in names):
            if path.suffix in SUFFIXES or path.name in NAMES or path.read_bytes()[:2] == b"#!":
                yield path.relative_to(TREE)


def test_every_source_file_names_its_licence() -> None:
    missing = []
    for path in set(sources()) - OTHERS:
        licence = "GPL-2.0-only OR BSD-2-Clause" if path.parts[0] == "bpf" else "Apache-2.0"
        head = (TREE / path).read_text().splitlines()[:FIRST_LINES]
        generated = path.parts[0] == GENERATED_IN and "_pb2" in path.name
        if not generated and not any(f"SPDX-License-Identifier: {licence}" in line for line in head):
            missing.append(f"{path}: expected an SPDX line with {licence} in its first {FIRST_LINES} lines")
    assert not missing, "\n".join(missing)
