# SPDX-License-Identifier: Apache-2.0
"""What is generated equals what the code says, and each measured figure names the command that prints it."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from setup import reference, results
from tests.docs.pages import PAGES, TREE, named, text

MEASURED = re.compile(r"\bn = \d|\| n \|")
COMMAND = re.compile(r"`(?:\./bicast|make|bicast-agent) [^`]+`")


def test_the_page_of_results_is_generated() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page(), "make results writes it anew"


def test_the_reference_is_generated() -> None:
    assert reference.COMMANDS.read_text(encoding="utf-8") == reference.commands(), "make reference writes it anew"
    assert reference.METRICS.read_text(encoding="utf-8") == reference.metrics(), "make reference writes it anew"


@pytest.mark.parametrize("source", sorted((TREE / "docs/pictures").glob("*.dot")), ids=named)
def test_each_drawing_is_that_of_its_source(source: Path) -> None:
    digest = sha256(source.read_bytes()).hexdigest()
    assert digest in source.with_suffix(".svg").read_text(encoding="utf-8"), "make pictures draws it anew"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_measured_figure_names_its_command(page: Path) -> None:
    """The command stands in the same paragraph or table, or in one of its neighbours."""
    paragraphs = re.split(r"\n\s*\n", text(page))
    for number, paragraph in enumerate(paragraphs):
        if MEASURED.search(paragraph):
            near = "\n".join(paragraphs[max(0, number - 1) : number + 2])
            assert COMMAND.search(near), f"{named(page)}: expected the command that prints this:\n{paragraph}"
