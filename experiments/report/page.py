# SPDX-License-Identifier: Apache-2.0
"""The page of the five papers, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.report import beside, claims002, paper002
from experiments.report.checklist import STATES, Item, checklist
from experiments.report.document import Block, Heading, Paragraph, Table
from experiments.report.findings import Finding, counted, findings
from experiments.transfer.rows import Row

TITLE = "The five papers"
PAPERS = {
    "000": "window control by neighbours at an access point (Hayakawa, 2013)",
    "001": "relays that shorten round trips (Kobayashi)",
    "002": "constant bicast at terminals with MPTCP (Matsuura)",
    "003": "the size of writes at a shared access point (Hirai)",
    "004": "bandwidth from one-way delays (Kitaguchi)",
}
MEASURED = {"002": paper002.section}


def page(downloads: Sequence[Row]) -> list[Block]:
    items = checklist(downloads)
    claims = sorted((*findings(), *claims002.findings(downloads)), key=lambda each: each.paper)
    return [
        Heading(1, TITLE),
        Paragraph("<!-- `./bicast report` writes this page from docs/results and experiments/paper. -->"),
        Paragraph(
            "Five papers stand behind this controller. This page puts their claims, tables and figures beside what was "
            "measured here. `./bicast report` writes it from the files that `./bicast experiment` leaves. What no file "
            "proves is shown as missing."
        ),
        *_findings(claims),
        *(block for paper, title in PAPERS.items() for block in _paper(paper, title, items, downloads)),
        *_checklist(items),
    ]


def _findings(claims: Sequence[Finding]) -> Iterator[Block]:
    yield Heading(2, "What the papers claim")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in counted(claims).items())
    yield Paragraph(f"Claims: {len(claims)}; {counts}. A claim is confirmed if the measured value keeps the bound.")
    rows = ((each.paper, each.claim, each.place, each.verdict, each.measured, each.sentence) for each in claims)
    yield Table(("paper", "claim", "place", "verdict", "measured here", "why"), tuple(rows))


def _paper(paper: str, title: str, items: Sequence[Item], downloads: Sequence[Row]) -> Iterator[Block]:
    yield Heading(2, f"Paper {paper}: {title}")
    if section := MEASURED.get(paper):
        yield from section(downloads)
    yield from beside.tables(paper)
    printed = [item for item in items if item.paper == paper and item.item.startswith(("Table", "Figure"))]
    yield Heading(3, f"Tables and figures of paper {paper}")
    rows = ((item.item, item.state, item.how, " ".join(f"`{path}`" for path in item.evidence)) for item in printed)
    yield Table(("table or figure", "here", "how", "files"), tuple(rows))


def _checklist(items: Sequence[Item]) -> Iterator[Block]:
    yield Heading(2, "Checklist")
    yield Paragraph(
        f"The papers have {len(items)} items that can be built or measured. `impossible` marks what this kind of "
        "machine cannot do."
    )
    counts = [
        (paper, *(str(sum(item.paper == paper and item.state == state for item in items)) for state in STATES))
        for paper in PAPERS
    ]
    whole = ("all", *(str(sum(item.state == state for item in items)) for state in STATES))
    yield Table(("paper", *STATES), (*counts, whole))
    others = [item for item in items if not item.item.startswith(("Table", "Figure"))]
    yield Paragraph("Tables and figures stand above, at their paper. The other items:")
    rows = ((item.paper, item.item, item.place, item.state, item.how) for item in others)
    yield Table(("paper", "item", "place", "here", "how"), tuple(rows))
