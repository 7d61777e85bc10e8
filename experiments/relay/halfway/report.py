# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot of the gains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from experiments.relay.halfway.measure import Run
from experiments.relay.halfway.plan import WAYS
from lab.results.figures import Figure, at_most, middle
from lab.results.pictures import save

OFF_PERCENT = 15.0
HEADER = ("rtt_ms", "way", "direct_mbit_s", "pair_mbit_s", "gain_percent")


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [each for each in runs if not each.stalled]
    for way in WAYS:
        for rtt_ms in dict.fromkeys(each.rtt_ms for each in good):
            gains = [each.gain for each in good if (each.way, each.rtt_ms) == (way, rtt_ms)]
            if gains:
                yield middle(f"the pair half way, {rtt_ms:.0f} ms, {way}: gain", gains, "%")
    if good:
        yield middle("predictions off by", [abs(each.off) for each in good], "%", at_most(OFF_PERCENT))


def rows(one: Run) -> Iterator[tuple[object, ...]]:
    yield one.rtt_ms, one.way, f"{one.direct_bps / 1e6:.4f}", f"{one.pair_bps / 1e6:.4f}", f"{one.gain:.2f}"


def draw(runs: Sequence[Run], file: Path) -> Path:
    drawing = Drawing(figsize=(7, 4), layout="constrained")
    panel = drawing.subplots()
    for way in WAYS:
        good = [each for each in runs if not each.stalled and each.way == way]
        panel.plot([each.rtt_ms for each in good], [each.gain for each in good], "o", label=way)
    panel.axhline(100, color="grey", linestyle=":", label="what half the way promises")
    panel.set_ylim(0)
    panel.set_xlabel("direct RTT, ms")
    panel.set_ylabel("gain of the pair half way, %")
    panel.legend()
    return save(drawing, file)
