# SPDX-License-Identifier: Apache-2.0
"""Paper 002's tables 5 and 6, figures 4 to 9 and claims of section 4.4, beside the published downloads."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import product, zip_longest
from pathlib import Path
from statistics import mean, median
from typing import Any

from matplotlib.figure import Figure as Drawing

from experiments.capture.report import MOMENTS, TABLES
from experiments.paper import paper002
from experiments.report.document import Block, Heading, Paragraph, Picture, Table
from experiments.transfer.plan import CORNERS, DIAGONAL, FRAMES, LAPTOP, MODES, PAPER, RELAY, SETTINGS, Setting
from experiments.transfer.report import FIRST_FIGURE, STYLES, Reading, Results, draw_figures, limit_bps
from experiments.transfer.rows import PUBLISHED, Row, Rows
from experiments.windows import report as windows
from lab.results.pictures import save
from lab.results.significance import permutation_test
from topologies.paper import SERVER

PICTURES = "pictures/papers"
IN_THE_VM = "`make corners`"
COMMAND = "`./bicast experiment transfer --full`"
TABLE_OF = {"bicast": 5, "plain": 6}
UPS, DOWNS = range(11), range(6)

SEGMENTS = PUBLISHED.with_name("002-capture.csv")
PATTERNS = {"server": ["word", "answer", "ack", "answer", "ack"], "client": ["word", "answer", "ack", "ack"]}
KERNEL = PUBLISHED.with_name("002-kernel.csv")
WINDOWS = PUBLISHED.with_name("002-windows.csv")

Cell = tuple[int, int]


def results_of(downloads: Sequence[Row]) -> Results:
    return Results((row for row in downloads if row.size_bytes == paper002.BYTES), paper002.BYTES)


def draw(downloads: Sequence[Row], docs: Path) -> list[Path]:
    results = results_of(downloads)
    drawn = draw_figures(results.only(PAPER), docs / PICTURES, "002", "svg")
    if drawn:
        drawn.append(_draw_diagonal(results, docs / PICTURES / "002-frames.svg"))
    if runs := windows.read(WINDOWS):
        drawn.append(windows.draw(runs, docs / PICTURES / "002-windows.svg"))
    return drawn


def section(downloads: Sequence[Row]) -> Iterator[Block]:
    results = results_of(downloads)
    yield from _tables_3_and_4()
    yield Heading(3, "Downloads")
    yield Paragraph(
        f"{COMMAND} downloads 500 MB in the paper's laboratory: namespaces, Linux's MPTCP and Open vSwitch in place of "
        "four virtual machines. The server sends with cubic, and LTE is backup. A cell has the paper's seconds, then "
        "the median here, with spread and n where n is not 1."
    )
    if downloads:
        origins = sorted({" on ".join((row.origin[1], row.origin[2])) for row in downloads})
        dates = sorted({row.origin[0] for row in downloads})
        yield Paragraph(f"Measured from {dates[0]} to {dates[-1]}, by {'; by '.join(origins)}.")
    for how, number in TABLE_OF.items():
        yield Heading(3, f"Table {number}: seconds for 500 MB, {how}")
        yield _grid(results, how)
        yield Paragraph(_agreement(results, how))
    yield Heading(3, "Figures 4 to 9: seconds by uplink loss")
    for down in DOWNS:
        if any(results.reading(PAPER, (up, down), how) for up, how in product(UPS, MODES)):
            name = f"{PICTURES}/002-figure{FIRST_FIGURE + down}.svg"
            yield Picture(name, f"Figure {FIRST_FIGURE + down}: Wi-Fi loses {down} % down, the paper beside this tree")
    yield from _frames(results)
    yield from _windows()
    yield from _other_settings(results)
    yield from _kernel(results)


def _tables_3_and_4() -> Iterator[Block]:
    yield Heading(3, "Tables 3 and 4: copies at the server and at the client")
    if not SEGMENTS.exists():
        yield Paragraph("Missing: `./bicast experiment capture` writes them.")
        return
    with SEGMENTS.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    yield Paragraph(
        "One exchange before the switch and one after it (`./bicast experiment capture`). The server switches, as in "
        "the paper, and in a second conversation the client."
    )
    for machine, number in TABLES.items():
        columns = [
            [line for line in lines if (line["captured_at"], line["switched_by"]) == (machine, switcher)]
            for switcher in ("server", "client")
        ]
        heads = (f"table {number}: the server switches", "the client switches")
        shown = ([f"{one['moment']}: `{one['segment']}`" for one in those] for those in columns)
        orders = tuple(order(machine, those) for those in columns)
        yield Table(heads, (*zip_longest(*shown, fillvalue=""), orders))


def order(machine: str, lines: Sequence[dict[str, str]]) -> str:
    """Compare with the paper's order: a word, its answers and the server's acknowledgements."""
    orders = [[_kind(line["segment"]) for line in lines if line["moment"] == moment] for moment in MOMENTS]
    return "order as in the paper" if orders == [PATTERNS[machine]] * len(MOMENTS) else "order differs from the paper"


def _kind(segment: str) -> str:
    if " seq " not in segment:
        return "ack"
    return "word" if segment.startswith(SERVER) else "answer"


def _grid(results: Results, how: str) -> Table:
    paper = paper002.seconds(how)
    heads = ("up \\ down", *(f"{down} %" for down in DOWNS))
    rows = (
        (f"{up} %", *(_pair(paper[up, down], results.reading(PAPER, (up, down), how)) for down in DOWNS)) for up in UPS
    )
    return Table(heads, tuple(rows))


def _pair(paper_s: float, here: Reading | None) -> str:
    if here is None:
        return f"{paper_s:.1f} / missing"
    spread = f" ({here.least:.1f} to {here.most:.1f}, n = {here.n})" if here.n > 1 else ""
    return f"{paper_s:.1f} / {here.seconds:.1f}{spread}"


def _agreement(results: Results, how: str) -> str:
    found = [
        here.seconds / paper
        for cell, paper in paper002.seconds(how).items()
        if (here := results.reading(PAPER, cell, how))
    ]
    if not found:
        return "No download is measured yet."
    whole = len(paper002.seconds(how))
    return (
        f"Here {how} takes {median(found):.2f} of the paper's time in the median, from {min(found):.2f} to "
        f"{max(found):.2f} (n = {len(found)} of {whole} cells, {COMMAND})."
    )


def _frames(results: Results) -> Iterator[Block]:
    yield Heading(3, "Loss of packets and loss of frames")
    yield Paragraph(
        "Virtual machines hand each other frames of up to 64 kB, and their `netem` loses a whole frame at a time. This "
        "laboratory loses single packets, which is more often for the sender. The table has both, over the grid's "
        f"diagonal: seconds of the paper, then here with lost packets, then with lost frames ({COMMAND})."
    )
    heads = ("up, down", *(f"{how}: {what}" for how, what in product(MODES, ("paper", "packets", "frames"))))
    rows = []
    for cell in DIAGONAL:
        words = [f"{cell[0]} %, {cell[1]} %"]
        for how in MODES:
            words.append(f"{paper002.seconds(how)[cell]:.1f}")
            words += [_seconds(results.reading(setting, cell, how)) for setting in (PAPER, FRAMES)]
        rows.append(tuple(words))
    yield Table(heads, tuple(rows))
    fits = {setting: _misfit(results, setting) for setting in (PAPER, FRAMES)}
    packets, frames = fits[PAPER], fits[FRAMES]
    if packets is not None and frames is not None:
        closer = "frames" if frames < packets else "packets"
        yield Paragraph(
            f"The paper's seconds fit lost {closer} better: the typical factor between here and the paper is "
            f"{packets:.2f} with packets and {frames:.2f} with frames."
        )
        yield Picture(f"{PICTURES}/002-frames.svg", "The diagonal: the paper, lost packets, lost frames")


def _windows() -> Iterator[Block]:
    yield Heading(3, "The server's congestion window (section 4.4)")
    runs = windows.read(WINDOWS)
    if not runs:
        yield Paragraph("Missing: `./bicast experiment windows --full` samples it.")
        return
    yield Paragraph(
        "Downloads of 100 MB without loss on the way up; each line is one (`./bicast experiment windows --full`). The "
        "table has means over a download, and the chance that so much wider a window comes without an effect."
    )
    rows = []
    for down in dict.fromkeys(run.down_percent for run in runs):
        found = [[run for run in runs if (run.down_percent, run.how) == (down, how)] for how in MODES]
        segments = [[run.window_segments for run in those] for those in found]
        seconds = (f"{median(run.seconds for run in those):.1f} s" for those in found)
        chance = permutation_test(*segments)
        rows.append(
            (f"{down} %", *(f"{mean(those):.1f}" for those in segments), *seconds, f"{chance:.2f}", str(len(found[1])))
        )
    heads = ("loss down", "plain, segments", "bicast, segments", "plain", "bicast", "chance", "n")
    yield Table(heads, tuple(rows))
    yield Picture(f"{PICTURES}/002-windows.svg", "The server's window over time, plain and with copies")


def _seconds(reading: Reading | None) -> str:
    return "missing" if reading is None else f"{reading.seconds:.1f} (n = {reading.n})"


def _misfit(results: Results, setting: Setting) -> float | None:
    """Return the median factor by which the diagonal differs from the paper, whichever is slower."""
    factors = []
    for cell, how in product(DIAGONAL, MODES):
        if reading := results.reading(setting, cell, how):
            ratio = reading.seconds / paper002.seconds(how)[cell]
            factors.append(max(ratio, 1 / ratio))
    return median(factors) if factors else None


def _other_settings(results: Results) -> Iterator[Block]:
    yield Heading(3, "Other senders, other networks, and LTE as an equal path")
    yield Paragraph(
        "The paper has no such values. Through a relay (figure 1) the server is a plain one, and the relay is MPTCP's "
        "sender. On the terminal itself means that Open vSwitch runs there, on one machine with the applications. "
        f"Seconds for 500 MB here at the grid's corners ({COMMAND}); the limit is what "
        "the shapers of the usable paths let through."
    )
    rows = []
    for setting, cell in product((*SETTINGS, RELAY, LAPTOP), CORNERS):
        readings = (_seconds(results.reading(setting, cell, how)) for how in MODES)
        ratio = results.ratio(setting, cell)
        limit = f"{paper002.BYTES * 8 / limit_bps(setting):.1f}"
        rows.append(
            (str(setting), f"{cell[0]} %, {cell[1]} %", *readings, "" if ratio is None else f"{ratio:.2f}", limit)
        )
    yield Table(("setting", "up, down", *MODES, "bicast / plain", "limit"), tuple(rows))


def _kernel(results: Results) -> Iterator[Block]:
    yield Heading(3, "Open vSwitch's kernel datapath, and netem")
    rows = Rows(KERNEL).read()
    if not rows:
        yield Paragraph(f"Missing: {IN_THE_VM} measures it.")
        return
    here = Results(rows, rows[0].size_bytes)
    yield Paragraph(
        f"Downloads of {here.size_bytes / 1e6:.0f} MB at a tenth of the rates, on Debian's kernel in an emulated "
        f"machine (n = 1, {IN_THE_VM}). The last columns have the ratio of the userspace datapath, and the paper's."
    )
    lines = []
    for cell in CORNERS:
        paper = paper002.seconds("bicast")[cell] / paper002.seconds("plain")[cell]
        ratios = (
            "missing" if one is None else f"{one:.2f}" for one in (here.ratio(PAPER, cell), results.ratio(PAPER, cell))
        )
        seconds = (_seconds(here.reading(PAPER, cell, how)) for how in MODES)
        lines.append((f"{cell[0]} %, {cell[1]} %", *seconds, *ratios, f"{paper:.2f}"))
    yield Table(("up, down", *MODES, "bicast / plain", "userspace", "paper"), tuple(lines))


def _draw_diagonal(results: Results, file: Path) -> Path:
    drawing = Drawing(figsize=(8, 3.6), layout="constrained")
    panels: Any = drawing.subplots(1, 2, sharey=True)
    for panel, how in zip(panels, MODES, strict=True):
        downs = [down for _, down in DIAGONAL]
        panel.plot(downs, [paper002.seconds(how)[cell] for cell in DIAGONAL], color="black", marker="x", label="paper")
        for setting, style in ((PAPER, "-"), (FRAMES, "--")):
            found = [(cell[1], one) for cell in DIAGONAL if (one := results.reading(setting, cell, how))]
            spread = [[one.seconds - one.least for _, one in found], [one.most - one.seconds for _, one in found]]
            label = "here: frames lost" if setting.frames_lost else "here: packets lost"
            seconds = [one.seconds for _, one in found]
            panel.errorbar(
                [down for down, _ in found],
                seconds,
                spread,
                **(STYLES[how] | {"label": label}),
                linestyle=style,
                capsize=3,
            )
        panel.set_title(how)
        panel.set_xlabel("Wi-Fi loss down, %; twice that up")
        panel.set_ylabel("seconds for 500 MB")
        panel.set_ylim(bottom=0)
        panel.legend(fontsize="small")
    return save(drawing, file)
