"""Paper 004's figures 2 and 6 to 9 of this run: what packets of each length took, and the lines through them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from controller.policy.bandwidth.rates import Rate
from experiments.owd.plan import Link
from experiments.owd.runs import Run


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    links = list(dict.fromkeys(run.link for run in good))
    figure = Figure(figsize=(14, 4 * max(1, len(links))), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(max(1, len(links)), 2, squeeze=False)
    for (delays, rates), link in zip(panels, links, strict=False):
        those = [run for run in good if run.link == link]
        _delays(delays, those[0])
        _rates(rates, link, those)
    figure.savefig(file, dpi=100)
    return file


def _delays(panel: Axes, run: Run) -> None:
    """Of the first run, with the far end's drift in them, as its clock has it."""
    samples = run.samples
    delays = (samples.received - samples.sent) * 1e6
    delays -= delays.min()
    panel.plot(samples.lengths, delays, ".", markersize=1, color="lightgrey", label="each packet")
    lengths = np.unique(samples.lengths)
    panel.plot(
        lengths, [delays[samples.lengths == each].min() for each in lengths], ".", label="the least of each length"
    )
    for name, slope in (("the paper's way", run.paper), ("with the drift", run.one_way)):
        panel.plot(lengths, slope.s_per_byte * 1e6 * lengths, label=f"{name}: {run.bps(slope) / 1e6:.4g} Mbit/s")
    panel.set_ylim(-0.05 * np.quantile(delays, 0.95), 1.3 * np.quantile(delays, 0.95))
    panel.set_xlabel("bytes of payload")
    panel.set_ylabel("one-way delay beyond the least, us")
    panel.set_title(str(run.link))
    panel.legend(fontsize="small")


def _rates(panel: Axes, link: Link, runs: Sequence[Run]) -> None:
    for run in runs:
        if isinstance(run.rate, Rate):
            found = run.rate
            errors = [[found.bps - found.least_bps], [found.most_bps - found.bps]]
            panel.errorbar(run.number, found.bps / 1e6, np.array(errors) / 1e6, fmt="o", color="tab:blue")
        panel.plot(run.number, run.bps(run.paper) / 1e6, "x", color="tab:orange")
        if isinstance(run.trains, Rate):
            panel.plot(run.number, run.trains.bps / 1e6, "+", color="tab:green")
    panel.axhline(link.rate_bps / 1e6, color="grey", linestyle=":")
    panel.set_ylim(0.8 * link.rate_bps / 1e6, 1.2 * link.rate_bps / 1e6)
    panel.set_xlabel("run: with its interval (o), the paper's way (x), trains (+)")
    panel.set_ylabel("Mbit/s")
