# SPDX-License-Identifier: Apache-2.0
"""Figures with promised values, and campaigns of many runs."""

from __future__ import annotations

from pathlib import Path

from lab.processes.controller import TREE

# An installed lab keeps results where it is started.
IN_TREE = (TREE / "Makefile").exists()
RESULTS = (TREE if IN_TREE else Path.cwd()) / "results"
DOCS = TREE / "docs"  # of the source tree alone
