# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot, beside paper 004's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from controller.policy.bandwidth.estimators import Slope
from controller.policy.bandwidth.rates import Rate, Unknown
from experiments.owd.measure import Run
from experiments.owd.plan import CALIBRATION, Link
from experiments.paper import paper004
from lab.results.figures import Figure, at_least, at_most, figure, middle, worst
from lab.results.pictures import save

WITHIN = {10_000_000: 1.0, 100_000_000: 1.0, 1_000_000_000: 3.0}  # percent of the mean
INSIDE = 0.9  # 108 of 120
SKEW_PPM = 3.0
TRAINS_WITHIN = 10.0
HEADER = (
    "link_bit_s", "others", "bucket", "round", "sent", "lost", "rate_mbit_s", "least_mbit_s", "most_mbit_s", "reason",
    "paper_mbit_s", "one_way_mbit_s", "drifting_mbit_s", "round_trip_mbit_s", "trains_mbit_s", "drift_ppm",
    "added_drift_ppm",
)  # fmt: skip


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    if not good:
        return
    alpha_ns = good[0].alpha.s_per_byte * 1e9
    yield figure(f"alpha, by {CALIBRATION}", alpha_ns, [alpha_ns], "ns/byte")
    for link in dict.fromkeys(run.link for run in good):
        those = [run for run in good if run.link == link]
        yield from _bucket(link, those) if link.bucket else _of_link(link, those)
    told = [run for run in good if not run.link.bucket]
    if told:
        inside = sum(run.inside for run in told)
        yield figure(
            "the true rate is in the interval",
            inside / len(told),
            [float(run.inside) for run in told],
            "of all",
            at_least(INSIDE),
        )


def _of_link(link: Link, runs: Sequence[Run]) -> Iterator[Figure]:
    known = [run.off(run.rate.bps) for run in runs if isinstance(run.rate, Rate)]
    if known:
        mean = sum(known) / len(known)
        yield figure(f"{link}: bias, of either sign", abs(mean), known, "%", at_most(WITHIN[link.rate_bps]))
        widths = [
            50 * (run.rate.most_bps - run.rate.least_bps) / run.rate.bps for run in runs if isinstance(run.rate, Rate)
        ]
        yield middle("  half of the interval", widths, "%")
    yield figure(
        "  not known", float(len(runs) - len(known)), [float(isinstance(run.rate, Unknown)) for run in runs], "runs"
    )
    for name, slope in WAYS.items():
        off = [abs(run.off(run.bps(slope(run)))) for run in runs]
        yield middle(f"  {name}: off by", off, "%")
    yield worst("  skew, off by", [abs(run.one_way.drift - run.added) * 1e6 for run in runs], "ppm", at_most(SKEW_PPM))
    errors = [100 * run.paper.error / run.paper.s_per_byte for run in runs]
    yield middle("  the paper's standard error, of its way", errors, "%")
    yield from _trains(runs)
    yield from _errors(runs)
    yield from _published(link)


def _trains(runs: Sequence[Run]) -> Iterator[Figure]:
    off = [abs(run.off(run.trains.bps)) for run in runs if isinstance(run.trains, Rate)]
    if off:
        promise = at_most(TRAINS_WITHIN) if runs[0].link.bucket else None
        yield middle("  trains: off by", off, "%", promise)


def _errors(runs: Sequence[Run]) -> Iterator[Figure]:
    for name, found in (
        ("all lengths", [run.errors for run in runs]),
        ("600 bytes and more", [run.long_errors for run in runs]),
    ):
        rates = [8e-6 / each.s_per_byte for each in found if each]
        if rates:
            yield middle(f"  by ICMP errors, {name}", rates, "Mbit/s")


def _bucket(link: Link, runs: Sequence[Run]) -> Iterator[Figure]:
    not_known = [float(isinstance(run.rate, Unknown)) for run in runs]
    yield figure(f"{link}: not told by one packet", sum(not_known) / len(runs), not_known, "of all", at_least(1))
    yield from _trains(runs)


def _published(link: Link) -> Iterator[Figure]:
    if link.others:
        return
    for one in paper004.values(link.rate_bps):
        yield Figure(f"  paper 004, table {one.table}: {one.what}", one.value, one.unit, 0, one.value, one.value)


WAYS: dict[str, Callable[[Run], Slope]] = {
    "the paper's way (the least of each length, no drift)": lambda run: run.paper,
    "one way, with the drift": lambda run: run.one_way,
    "one way, the drift left in": lambda run: run.drifting,
    "there and back": lambda run: run.round_trip,
}


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    link, found = run.link, run.rate
    rate = (
        (*(f"{bps / 1e6:.4f}" for bps in (found.bps, found.least_bps, found.most_bps)), "")
        if isinstance(found, Rate)
        else ("", "", "", found.reason)
    )
    slopes = (f"{run.bps(slope(run)) / 1e6:.4f}" for slope in WAYS.values())
    trains = f"{run.trains.bps / 1e6:.4f}" if isinstance(run.trains, Rate) else ""
    drifts = (f"{run.one_way.drift * 1e6:.3f}", f"{run.added * 1e6:.3f}")
    yield link.rate_bps, link.others, int(link.bucket), run.number, run.sent, run.lost, *rate, *slopes, trains, *drifts


# Plot: paper 004's figures 2 and 6 to 9


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    links = list(dict.fromkeys(run.link for run in good))
    drawing = Drawing(figsize=(14, 4 * max(1, len(links))), layout="constrained")
    panels = drawing.subplots(max(1, len(links)), 2, squeeze=False)
    for (delays, rates), link in zip(panels, links, strict=False):
        those = [run for run in good if run.link == link]
        _delays(delays, those[0])
        _rates(rates, link, those)
    return save(drawing, file)


def _delays(panel: Axes, run: Run) -> None:
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
