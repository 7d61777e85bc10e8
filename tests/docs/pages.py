# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation, and their parts."""

from __future__ import annotations

import re
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PAGES = sorted([*TREE.glob("*.md"), *(TREE / "docs").rglob("*.md")])


def named(page: Path) -> str:
    return str(page.relative_to(TREE))


def text(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
