# SPDX-License-Identifier: Apache-2.0
"""Results: measured figures with promised values, and campaigns of many runs."""

from __future__ import annotations

from pathlib import Path

from lab.processes.controller import TREE

# A package's directory is the system's, so that an installed lab keeps results where it is started.
RESULTS = (TREE if (TREE / "Makefile").exists() else Path.cwd()) / "results"
