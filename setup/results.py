# SPDX-License-Identifier: Apache-2.0
"""Write docs/results.md and its picture from the rows in docs/results/.

    make results

To publish newer rows, copy a file from results/ and change its date below.
"""

from __future__ import annotations

from matplotlib import rc_context
from matplotlib.figure import Figure

from experiments.report.figures import Row, rows
from lab.results import DOCS
from lab.results.pictures import save

PAGE, PICTURE = DOCS / "results.md", DOCS / "pictures" / "results.svg"

SOURCES = {  # file: command, date, what it measures
    "bench": ("make bench", "2026-11-21", "forwarding, mode changes, connecting, dead ports, 500 agents"),
    "transfer": ("./bicast experiment transfer", "2026-11-27", "paper 002, the corners of its grid, 50 MB"),
    "capture": ("./bicast experiment capture", "2026-11-27", "paper 002: which packets are copied"),
    "switching": ("./bicast experiment switching --full", "2026-11-21", "a live connection moved to the other uplink"),
    "failover": ("./bicast experiment failover --full", "2026-11-21", "a path that dies under a transfer"),
    "once": ("./bicast experiment once", "2026-11-22", "two sites: everything copied, delivered once"),
    "air": ("./bicast experiment air --full", "2026-11-22", "paper 000: window caps at a shared access point"),
    "owd": ("./bicast experiment owd --full", "2026-11-22", "paper 004: bandwidth from one-way delays"),
    "adaptive": ("./bicast experiment adaptive --full", "2026-11-22", "mode `auto`: copies only while they pay"),
    "peers": ("./bicast experiment peers --full", "2026-11-29", "tunnels beside other projects, over two lossy paths"),
    "relay": ("./bicast experiment relay", "2026-11-22", "paper 001: what a relay costs and gains"),
}
CUTS = "Wi-Fi cut and healed every 2 s, 50 datagrams/s each way; bicast, lost at a cut"
BLACK = "black both ways, download: longest pause; kernel's default, no bicast, median"
UPLOAD = "relayed, bicast, 20 MB up, Wi-Fi losing 10 % up and 5 % down"
HIGHLIGHTS = [  # label, file, path of the row
    ("Datagrams lost at a cut of Wi-Fi, copies on", "once", CUTS),
    ("The same, copies off", "once", f"{CUTS} / single, lost at a cut"),
    ("Longest pause when a path goes black, plain kernel", "failover", BLACK),
    ("The same, agent's armed failover", "failover", f"{BLACK} / agent's armed failover, median"),
    ("Upload over Wi-Fi losing 10 % up and 5 % down, relayed", "relay", UPLOAD),
    ("The same, not relayed", "relay", "left alone, 5 MB up, Wi-Fi losing 10 % up and 5 % down"),
    ("Download goodput without a line's limit, copies on / off", "bench", "download goodput, bicast / plain"),
    ("Upload goodput without a line's limit, copies on", "bench", "upload goodput, bicast"),
    ("The same, copies off", "bench", "upload goodput, plain"),
]


def shown(row: Row) -> str:
    return f"{row.value:g} {row.unit}".strip()


def highlight(name: str, path: str) -> Row:
    return next(row for row in rows(name) if row.path == path)


def page() -> str:
    found = {name: list(rows(name)) for name in SOURCES}
    promised = [row for each in found.values() for row in each if row.promise]
    missed = [(name, row) for name, each in found.items() for row in each if row.met == "False"]
    lines = [
        "# Results",
        "",
        "<!-- `make results` writes this page from docs/results/*.csv. -->",
        "",
        f"The experiments promise {len(promised)} figures. Of these, {len(missed)} are not met.",
        "",
        "## Promises that are not met",
        "",
        "| figure | measured | n | promised | command |",
        "|---|---|---|---|---|",
        *(f"| {row.path} | {shown(row)} | {row.n} | {row.promise} | `{SOURCES[name][0]}` |" for name, row in missed),
        "",
        "## What bicast changes",
        "",
        "![Loss, pause and rate with and without bicast](pictures/results.svg)",
        "",
        "| figure | measured | from | to | n | command |",
        "|---|---|---|---|---|---|",
    ]
    for label, name, path in HIGHLIGHTS:
        row = highlight(name, path)
        lines.append(f"| {label} | {shown(row)} | {row.low:g} | {row.high:g} | {row.n} | `{SOURCES[name][0]}` |")
    lines += [
        "",
        "## All rows",
        "",
        "Each file has figure, value, unit, n, least, most, promise and verdict. An indented figure belongs to the one",
        "above it.",
        "",
        "| rows | command | date | measures | figures | promised | met |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (command, date, measures) in SOURCES.items():
        each = found[name]
        kept = [row for row in each if row.met == "True"]
        total = len([row for row in each if row.promise])
        link = f"[{name}.csv](results/{name}.csv)"
        lines.append(f"| {link} | `{command}` | {date} | {measures} | {len(each)} | {total} | {len(kept)} |")
    lines += [
        "",
        "## The machine",
        "",
        "Two virtual cores under Firecracker, Debian 12, Linux 6.18, Open vSwitch 3.1 with its userspace datapath, and",
        "os-ken 4.2.2. All hosts, links and switches share these cores. Trust the ratios: rates depend on the machine.",
        "Losses come from nftables and an emulator, not from radio. Nothing here was measured on real Wi-Fi or LTE.",
    ]
    return "\n".join(lines) + "\n"


def draw() -> None:
    panels = [
        ("Datagrams lost at a cut of Wi-Fi", [("one uplink", "once", HIGHLIGHTS[1][2]), ("copies", "once", CUTS)]),
        (
            "Pause when a path goes black, ms",
            [("plain", "failover", BLACK), ("failover", "failover", HIGHLIGHTS[3][2])],
        ),
        ("Upload over lossy Wi-Fi, Mbit/s", [("direct", "relay", HIGHLIGHTS[5][2]), ("relayed", "relay", UPLOAD)]),
    ]
    with rc_context({"font.size": 11}):
        drawing = Figure(figsize=(10, 2.6), layout="constrained")
        for number, (title, bars) in enumerate(panels, 1):
            axes = drawing.add_subplot(1, len(panels), number)
            found = [highlight(name, path) for _, name, path in bars]
            spread = [[row.value - row.low for row in found], [row.high - row.value for row in found]]
            labels = [f"{label}\n(n = {row.n})" for (label, _, _), row in zip(bars, found, strict=True)]
            drawn = axes.barh(labels, [row.value for row in found], xerr=spread, color=["#b0b0b0", "#1f77b4"])
            axes.bar_label(drawn, fmt="%g", padding=4)
            axes.set_title(title, fontsize=11)
            axes.margins(x=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        save(drawing, PICTURE)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    draw()
