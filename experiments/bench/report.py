# SPDX-License-Identifier: Apache-2.0
"""Report broken promises: one makes the exit code 1."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lab.results import RESULTS
from lab.results.figures import Figure

DIRECTORY = RESULTS / "bench"


def verdict(figures: Sequence[Figure]) -> int:
    broken = [each for each in figures if each.met is False]
    for each in broken:
        measured = f"{each.value:g} {each.unit}".strip()
        print(f"bench: not met: {each.what.strip()}: {measured}, promised {each.promise}", file=sys.stderr)
    return 1 if broken else 0
