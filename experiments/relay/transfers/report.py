# SPDX-License-Identifier: Apache-2.0
"""Rows, figures and plot, beside paper 001's figures 5 and 6."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean, median

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from controller.policy.paths.leg_throughput import Leg, by_window
from experiments.paper import paper001
from experiments.relay.transfers.lanes import RATE_BPS
from experiments.relay.transfers.measure import Run
from experiments.relay.transfers.plan import Task
from lab.results.figures import Figure, at_most, exactly, figure, middle
from lab.results.pictures import save

MAX_DEVIATION_PERCENT = 15.0
HEADER = (
    "set", "sender", "receiver", "relay", "chosen_by", "crowded", "window_bytes", "size_bytes", "direct_rtt_ms",
    "near_rtt_ms", "far_rtt_ms", "direct_loss", "near_loss", "far_loss", "overhead_ms", "direct_mbit_s",
    "relayed_mbit_s", "gain_percent", "direct_steady_mbit_s", "relayed_steady_mbit_s", "predicted_direct_mbit_s",
    "predicted_relayed_mbit_s",
)  # fmt: skip


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for name in dict.fromkeys(run.task.set for run in good):
        yield from _of_set(name, [run for run in good if run.task.set == name and not run.task.lossless])
    for window in sorted({run.task.window_bytes for run in good if run.task.lossless}):
        those = [run for run in good if run.task.lossless and run.task.window_bytes == window]
        yield middle(f"no loss, a window of {window / 1024:.0f} KiB: gain", [run.gain for run in those], "%")
        yield _off(those)


def _of_set(name: str, runs: Sequence[Run]) -> Iterator[Figure]:
    if not runs:
        return
    published, noise = paper001.counts(name), _noise_percent(runs)
    shares = [100 * run.direct.bps / _by_theory(run.task) for run in runs]
    yield figure(f"{name}: direct, of equation (1)", mean(shares), shares, "%")
    yield _paper("", float(published.direct_by_theory_percent), "%")
    for method in ("ping", "ours"):
        taken = [run for run in runs if method in run.task.chosen_by]
        if not taken:
            continue
        yield middle(f"  {method}: gain", [run.gain for run in taken], "%")
        worse = [100.0 * (run.gain < 0) for run in taken]
        yield figure("    worse than direct", mean(worse), worse, "% of taken")
        if method == "ping":
            yield _paper(
                f": {published.worse} of {published.triples}", 100 * published.worse / published.triples, "% of taken"
            )
        else:
            beyond = [float(run.gain < -noise) for run in taken]
            yield figure(
                f"    and by more than the noise of {noise:.0f} %", sum(beyond), beyond, "transfers", exactly(0)
            )
    for what, busy in (("by a crowded relay", True), ("by others", False)):
        gains = [run.gain for run in runs if run.task.busy == busy]
        if gains:
            yield middle(f"  gain {what}", gains, "%")
    yield _off([run for run in runs if not run.task.busy])


def _off(runs: Sequence[Run]) -> Figure:
    off = [abs(each) for run in runs for each in run.off]
    return middle("  predictions, direct and relayed, off by", off, "%", at_most(MAX_DEVIATION_PERCENT))


def _noise_percent(runs: Sequence[Run]) -> float:
    """Return two standard deviations of a gain, which compares two transfers.

    The median of direct transfers' deviation from prediction is 1 / 1.48 of a standard deviation.
    """
    return 2 * sqrt(2) * 1.48 * median(abs(run.off[0]) for run in runs)


def _by_theory(task: Task) -> float:
    return by_window(Leg(task.rtts_ms["direct"], bandwidth_bps=RATE_BPS), task.window_bytes)


def _paper(what: str, value: float, unit: str) -> Figure:
    return Figure(f"    paper 001{what}", value, unit, 0, value, value)


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    task, links = run.task, ("direct", "near", "far")
    rates = (run.direct.bps, run.relayed.bps)
    told = (run.direct.steady_bps, run.relayed.steady_bps, run.predicted_direct_bps, run.predicted_relayed_bps)
    yield (
        task.set, task.sender, task.receiver, task.relay, task.chosen_by, int(task.busy), task.window_bytes,
        run.size_bytes, *(f"{task.rtts_ms[link]:.3f}" for link in links), *(f"{task.loss(link):.6f}" for link in links),
        f"{run.overhead_ms:.3f}", *(f"{bps / 1e6:.4f}" for bps in rates), f"{run.gain:.2f}",
        *(f"{bps / 1e6:.4f}" for bps in told),
    )  # fmt: skip


# Plot: paper 001's figures 5 and 6

MARKS = {"ping, ours": ("o", "tab:blue"), "ping": ("x", "tab:orange"), "ours": ("s", "tab:green")}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    sets = list(dict.fromkeys(run.task.set for run in good))
    drawing = Drawing(figsize=(12, 4 * max(1, len(sets))), layout="constrained")
    for (gains, rates), name in zip(drawing.subplots(max(1, len(sets)), 2, squeeze=False), sets, strict=False):
        those = [run for run in good if run.task.set == name and not run.task.lossless]
        _gains(gains, name, those)
        _predictions(rates, those)
    return save(drawing, file)


def _gains(panel: Axes, name: str, runs: Sequence[Run]) -> None:
    for chosen_by, (marker, color) in MARKS.items():
        those = [run for run in runs if run.task.chosen_by == chosen_by]
        rtts_ms = [run.task.rtts_ms["direct"] for run in those]
        panel.plot(rtts_ms, [run.gain for run in those], marker, color=color, label=f"relay taken by {chosen_by}")
    busy = [run for run in runs if run.task.busy]
    circles = {"markersize": 14, "fillstyle": "none", "color": "tab:red"}
    panel.plot([run.task.rtts_ms["direct"] for run in busy], [run.gain for run in busy], "o", **circles)  # type: ignore[arg-type]
    panel.axhline(0, color="grey", linestyle=":")
    panel.set_xlabel("direct RTT, ms")
    panel.set_ylabel("gain over direct, %")
    panel.set_title(f"{name}; circles: the relay is crowded")
    panel.legend(fontsize="small")


def _predictions(panel: Axes, runs: Sequence[Run]) -> None:
    pairs = {
        "direct": [(run.predicted_direct_bps, run.direct.steady_bps) for run in runs],
        "relayed": [(run.predicted_relayed_bps, run.relayed.steady_bps) for run in runs],
    }
    for label, told in pairs.items():
        panel.plot([each[0] / 1e6 for each in told], [each[1] / 1e6 for each in told], "o", label=label)
    most = max((max(each) / 1e6 for told in pairs.values() for each in told), default=1.0)
    panel.plot([0, most], [0, most], color="grey", linestyle=":")
    panel.set_xlabel("predicted, Mbit/s")
    panel.set_ylabel("measured once it had begun, Mbit/s")
    panel.legend(fontsize="small")
