# SPDX-License-Identifier: Apache-2.0
"""Generated pages match the code, and each measured figure names the command that prints it."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from experiments import report
from experiments.report.document import markdown
from experiments.report.page import page
from experiments.transfer.rows import PUBLISHED, Rows
from setup import reference, results
from tests.docs.pages import PAGES, TREE, named, text

MEASURED = re.compile(r"\bn = \d|\| n \|")
COMMAND = re.compile(r"`(?:\./bicast|make|bicast-agent) [^`]+`")


def test_the_page_of_results_is_generated() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page(), "run `make results`"


def test_the_page_of_the_papers_is_generated() -> None:
    downloads = Rows(PUBLISHED).read()
    assert report.PAGE.read_text(encoding="utf-8") == markdown(page(downloads)), "run `./bicast report`"
    drawn = re.findall(r"]\((pictures/papers/[^)]+)\)", report.PAGE.read_text(encoding="utf-8"))
    assert all((report.PAGE.parent / picture).is_file() for picture in drawn)


def test_the_reference_is_generated() -> None:
    assert reference.COMMANDS.read_text(encoding="utf-8") == reference.commands(), "run `make reference`"
    assert reference.METRICS.read_text(encoding="utf-8") == reference.metrics(), "run `make reference`"


@pytest.mark.parametrize("source", sorted((TREE / "docs/pictures").glob("*.dot")), ids=named)
def test_each_drawing_matches_its_source(source: Path) -> None:
    digest = sha256(source.read_bytes()).hexdigest()
    assert digest in source.with_suffix(".svg").read_text(encoding="utf-8"), "run `make pictures`"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_measured_figure_names_its_command(page: Path) -> None:
    """The command is in the same paragraph or table, or in one of its neighbours."""
    paragraphs = re.split(r"\n\s*\n", text(page))
    for number, paragraph in enumerate(paragraphs):
        if MEASURED.search(paragraph):
            near = "\n".join(paragraphs[max(0, number - 1) : number + 2])
            assert COMMAND.search(near), f"{named(page)}: expected the command that prints this:\n{paragraph}"
