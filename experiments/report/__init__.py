# SPDX-License-Identifier: Apache-2.0
"""Write the page of the five papers: their claims, tables and figures beside what was measured here.

It publishes what experiments left in results/, and shows a row without a file behind it as missing.
"""

from __future__ import annotations

import shutil

from experiments import windows
from experiments.capture import plan as capture
from experiments.report import paper002
from experiments.report.document import html, markdown
from experiments.report.figures import ROWS
from experiments.report.page import TITLE, page
from experiments.transfer.rows import DIRECTORY, PUBLISHED, Rows
from lab.results import DOCS, RESULTS

PAGE = DOCS / "papers.md"
WHOLE = RESULTS / "papers.html"
LEFT = {  # by an experiment, and where it is published
    windows.CAMPAIGN.directory / "full-samples.csv": paper002.WINDOWS,
    capture.DIRECTORY / "segments.csv": paper002.SEGMENTS,
    capture.DIRECTORY / "capture.csv": ROWS / "capture.csv",
}


def write() -> int:
    downloads = Rows(DIRECTORY / "full.csv", PUBLISHED).publish()
    for left, published in LEFT.items():
        if left.exists():
            shutil.copy(left, published)
    for left in sorted((RESULTS / "vm").glob("*/kernel.csv")):  # the newest run is the last
        shutil.copy(left, paper002.KERNEL)
    pictures = paper002.draw(downloads, DOCS)
    blocks = page(downloads)
    PAGE.write_text(markdown(blocks), encoding="utf-8")
    WHOLE.parent.mkdir(parents=True, exist_ok=True)
    WHOLE.write_text(html(TITLE, blocks, DOCS), encoding="utf-8")
    size = sum(path.stat().st_size for path in pictures)
    print(f"{PAGE}\n{WHOLE}\n{len(pictures)} pictures, {size / 1000:.0f} kB")
    return 0
