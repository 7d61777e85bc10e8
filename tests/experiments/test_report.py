# SPDX-License-Identifier: Apache-2.0
"""The page of the papers: it claims only what files prove, and judges claims by tests of significance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from experiments.paper import paper002
from experiments.report import beside, checklist, claims002, findings
from experiments.report import paper002 as section
from experiments.report.checklist import Item
from experiments.report.document import Heading, Paragraph, Picture, Table, html, markdown
from experiments.report.page import page
from experiments.transfer.plan import CORNERS, FRAMES, PAPER, Setting, Task
from experiments.transfer.rows import Row
from lab.results.significance import permutation_test, sign_test, slope


def download(setting: Setting, cell: tuple[int, int], how: str, seconds: float, number: int = 1) -> Row:
    origin = ("2026-11-27", "1.2.0", "2 cores")
    return Row(Task(setting, *cell, how, number), seconds, paper002.BYTES, True, True, origin)


def papers_own(slower: dict[str, float]) -> list[Row]:
    """Return downloads as fast as the paper's, times a factor for each mode; corners five times."""
    return [
        download(PAPER, cell, how, seconds * slower[how] + number / 100, number)
        for how in paper002.TABLES
        for cell, seconds in paper002.seconds(how).items()
        for number in range(1, 6 if cell in CORNERS else 2)
    ]


def test_a_document_is_markdown_and_one_file_of_html(tmp_path: Path) -> None:
    (tmp_path / "one.svg").write_text("<?xml?><svg>drawn</svg>")
    blocks = [
        Heading(2, "A <b>"),
        Paragraph("See `a|b` in [here](x.md)."),
        Table(("one", "two"), (("a|b", "&"),)),
        Picture("one.svg", "a line"),
    ]
    assert markdown(blocks) == (
        "## A <b>\n\nSee `a|b` in [here](x.md).\n\n| one | two |\n| --- | --- |\n| a\\|b | & |\n\n![a line](one.svg)\n"
    )
    whole = html("T", blocks, tmp_path)
    assert "<h2>A &lt;b&gt;</h2>" in whole and "<svg>drawn</svg>" in whole and "<?xml" not in whole
    assert '<code>a|b</code> in <a href="x.md">here</a>' in whole and "<td>&amp;</td>" in whole


def test_a_line_of_markdown_ends_outside_code() -> None:
    command = "`make this and that and more`"
    shown = markdown([Paragraph(" ".join(["word"] * 22 + [command]))])
    assert command in shown and len(shown.splitlines()) == 2


def test_significance_of_few_values() -> None:
    assert sign_test(5, 5) == pytest.approx(1 / 32)
    assert sign_test(0, 5) == pytest.approx(1)
    assert permutation_test((1.0, 2.0), (3.0, 4.0)) == pytest.approx(1 / 6)
    assert permutation_test((3.0, 4.0), (1.0, 2.0)) == pytest.approx(1)


def test_a_slope_has_an_intercept_for_each_group() -> None:
    exact = slope([(group, float(x), 100 * group + 2.0 * x) for group in (0, 1) for x in range(5)])
    assert (exact.value, exact.half_width, exact.n) == (pytest.approx(2), pytest.approx(0, abs=1e-9), 10)
    noisy = slope([(0, float(x), 2.0 * x + (-1) ** x) for x in range(9)])
    assert noisy.half_width > 0.1 and noisy.overlaps(exact)
    assert not exact.overlaps(slope([(0, float(x), 3.0 * x) for x in range(5)]))


@pytest.mark.parametrize(
    ("evidence", "downloads", "lack"),
    [
        ("README.md", (), ""),
        ("no/such.py", (), "`no/such.py` is missing"),
        ("docs/results/papers/002-downloads.csv#plain", (), "66 of 66 values are not measured"),
        (
            "docs/results/papers/002-downloads.csv#down=5",
            [download(PAPER, (0, 5), "plain", 80.0), download(FRAMES, (1, 5), "plain", 80.0)],
            "21 of 22 values are not measured",
        ),
        ("docs/results/papers/002-downloads.csv#all", papers_own({"plain": 1, "bicast": 1}), ""),
    ],
)
def test_a_row_without_proof_is_missing(evidence: str, downloads: Sequence[Row], lack: str) -> None:
    item = Item("002", "Table 6", "§4.3", checklist.DONE, "It is here.", (evidence,))
    proved = checklist.proved(item, downloads)
    assert (proved.state, proved.how) == ((checklist.MISSING, lack) if lack else (checklist.DONE, "It is here."))


def test_corners_are_done_with_five_downloads_each() -> None:
    item = Item("002", "Mean", "§4.2", checklist.DONE, "", ("docs/results/papers/002-downloads.csv#corners",))
    downloads = papers_own({"plain": 1, "bicast": 1})
    assert checklist.proved(item, downloads).state == checklist.DONE
    fewer = [row for row in downloads if row.task.number < 5]
    assert checklist.proved(item, fewer).how == "8 of 8 values are not measured"


def test_the_checklist_is_whole_and_its_proofs_are_rows_and_files() -> None:
    items = checklist.checklist(papers_own({"plain": 1, "bicast": 1}))
    assert len(items) == 148 and {item.state for item in items} == set(checklist.STATES)
    gone = [item for item in items if item.how.endswith("` is missing") and "docs/results/papers" not in item.how]
    assert not gone, "a file of the checklist is gone"
    assert all(item.how for item in items)


@pytest.mark.parametrize(
    ("bound", "value", "holds"),
    [(">= 2", 2.0, True), ("> 2", 2.0, False), ("<= 2", 2.1, False), ("< 2", 1.9, True), ("== 0", 0.0, True)],
)
def test_a_bound_is_compared(bound: str, value: float, holds: bool) -> None:
    assert findings.holds_at(bound, value) is holds


def test_a_claim_without_a_row_is_never_confirmed() -> None:
    for each in findings.findings():
        assert (each.verdict in (findings.CONFIRMED, findings.NOT_CONFIRMED)) == bool(each.measured)
    assert sum(findings.counted(findings.findings()).values()) == len(findings.findings())


def test_each_printed_number_stands_beside_a_published_row() -> None:
    for paper in ("000", "001", "004"):
        blocks = list(beside.tables(paper))
        titles = [block.text for block in blocks if isinstance(block, Heading)]
        assert titles and len(titles) == len(set(titles)), "the rows of one table are adjacent"
        assert all(len(row) == len(beside.HEADS) for block in blocks if isinstance(block, Table) for row in block.rows)


def test_nothing_is_claimed_of_downloads_that_are_missing() -> None:
    without_corners = [row for row in papers_own({"plain": 1, "bicast": 1}) if row.task.cell not in CORNERS]
    for downloads in ((), without_corners):
        assert {each.verdict for each in claims002.findings(downloads)[:3]} == {findings.MISSING}


def test_the_papers_own_seconds_confirm_its_findings() -> None:
    faster, flat, first, _ = claims002.findings(papers_own({"plain": 1.2, "bicast": 1}))
    assert {faster.verdict, flat.verdict, first.verdict} == {findings.CONFIRMED}
    assert "66 of 66" in faster.measured and "p = 0.004" in first.sentence


def test_slower_copies_confirm_nothing() -> None:
    faster, _, first, _ = claims002.findings(papers_own({"plain": 1, "bicast": 2}))
    assert (faster.verdict, first.verdict) == (findings.NOT_CONFIRMED, findings.NOT_CONFIRMED)
    _, flat, *_ = claims002.findings(
        [
            download(PAPER, row.task.cell, row.task.how, row.seconds + 9 * row.task.up_percent, row.task.number)
            for row in papers_own({"plain": 1, "bicast": 1})
        ]
    )
    assert flat.verdict == findings.NOT_CONFIRMED


def test_the_page_puts_the_papers_seconds_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "WINDOWS", tmp_path / "none.csv")
    downloads = papers_own({"plain": 2, "bicast": 1})
    downloads += [download(FRAMES, cell, "plain", 50.0) for cell in ((0, 0), (2, 1))]
    drawn = section.draw(downloads, tmp_path)
    assert [picture.name for picture in drawn] == [
        *(f"002-figure{number}.svg" for number in range(4, 10)),
        "002-frames.svg",
    ]
    blocks = page(downloads)
    shown = markdown(blocks)
    assert "80.6 / 161.2 (161.2 to 161.2, n = 5)" in shown and "Here plain takes 2.00 of the paper's time" in shown
    assert "The paper's seconds fit lost frames better" in shown
    assert all(f"pictures/papers/{picture.name}" in shown for picture in drawn)
    assert "<svg" in html("papers", blocks, tmp_path)


def test_a_capture_is_compared_with_the_papers_order() -> None:
    word, answer = (
        "192.168.0.2 > 192.168.110.3: Flags [P.], seq 5:9, ack 2",
        "192.168.110.3 > 192.168.0.2: Flags [P.], seq 2:3, ack 9",
    )
    ack = "192.168.0.2 > 192.168.110.3: Flags [.], ack 3"
    lines = [{"moment": moment, "segment": each} for moment in ("before", "after") for each in (word, answer, ack, ack)]
    assert section.order("client", lines) == "order as in the paper"
    assert section.order("client", lines[:-1]) == section.order("server", lines) == "order differs from the paper"


def test_the_same_drawing_gives_the_same_picture(tmp_path: Path) -> None:
    downloads = papers_own({"plain": 1, "bicast": 1})
    first, second = (section.draw(downloads, tmp_path / name) for name in ("a", "b"))
    assert [picture.read_bytes() for picture in first] == [picture.read_bytes() for picture in second]
