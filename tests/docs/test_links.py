# SPDX-License-Identifier: Apache-2.0
"""Each link of the documentation leads to a file and a heading that exist."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, TREE, named, text


def anchors(page: Path) -> Iterator[str]:
    """Yield the anchors that GitHub makes of headings. A repeated heading gets a number."""
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#+ +(.*?) *#*$", text(page), re.MULTILINE):
        words = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading).lower()
        name = "".join(c for c in words.replace(" ", "-") if c not in string.punctuation or c in "-_")
        yield f"{name}-{seen[name]}" if seen[name] else name
        seen[name] += 1


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"]\(([^)\s]+)\)", text(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} is no heading of {target.name}"


def test_each_page_can_be_reached_from_the_readme() -> None:
    reached, new = set(), {TREE / "README.md"}
    while new:
        reached |= new
        links = {
            (page.parent / link).resolve() for page in new for link in re.findall(r"]\(([^)#\s]+\.md)", text(page))
        }
        new = links - reached
    assert set(PAGES) <= reached
