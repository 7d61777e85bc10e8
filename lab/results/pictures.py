# SPDX-License-Identifier: Apache-2.0
"""Save a drawing; the same drawing gives the same SVG."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

DOTS_PER_INCH = 120  # of a PNG


def save(drawing: Figure, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".svg":
        with rc_context({"svg.hashsalt": "bicast", "svg.fonttype": "none"}):
            drawing.savefig(file, metadata={"Date": None})
    else:
        drawing.savefig(file, dpi=DOTS_PER_INCH)
    return file
