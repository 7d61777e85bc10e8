# SPDX-License-Identifier: Apache-2.0
"""The verdict on the figures, as an exit code, and where they are kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lab.processes.controller import TREE
from lab.results.figures import Figure

RESULTS = TREE / "results" / "bench"


def verdict(figures: Sequence[Figure]) -> int:
    """Return the exit code; each promise that was not met goes to standard error."""
    broken = [each for each in figures if each.met is False]
    for each in broken:
        measured = f"{each.value:g} {each.unit}".strip()
        print(f"bench: not met: {each.what.strip()}: {measured}, promised {each.promise}", file=sys.stderr)
    return 1 if broken else 0
