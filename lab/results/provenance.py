# SPDX-License-Identifier: Apache-2.0
"""The origin of a measured row: date, version of this tree, and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from functools import cache

from controller.edges.runtime.version import VERSION
from lab.processes.controller import TREE

HEADER = ("date", "commit", "machine")


@cache
def provenance() -> tuple[str, str, str]:
    """Return the values of HEADER."""
    machine = f"{os.cpu_count()} cores {platform.machine()}, Linux {platform.release()}"
    return date.today().isoformat(), _version(), machine


def _version() -> str:
    """Return the version with its commit; an installed lab has no git."""
    script = TREE / "setup" / "version.sh"
    if not script.exists():
        return VERSION
    return subprocess.run([str(script)], check=True, capture_output=True, text=True).stdout.strip()
