"""Paper 001's figures 5 and 6 of this run: what each relay gained, over the direct RTT; and predictions beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.relay.transfers.runs import Run

MARKS = {"ping, ours": ("o", "tab:blue"), "ping": ("x", "tab:orange"), "ours": ("s", "tab:green")}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    sets = list(dict.fromkeys(run.task.set for run in good))
    figure = Figure(figsize=(12, 4 * max(1, len(sets))), layout="constrained")
    FigureCanvasAgg(figure)
    for (gains, rates), name in zip(figure.subplots(max(1, len(sets)), 2, squeeze=False), sets, strict=False):
        those = [run for run in good if run.task.set == name and not run.task.lossless]
        _gains(gains, name, those)
        _predictions(rates, those)
    figure.savefig(file, dpi=100)
    return file


def _gains(panel: Axes, name: str, runs: Sequence[Run]) -> None:
    for chosen_by, (marker, color) in MARKS.items():
        those = [run for run in runs if run.task.chosen_by == chosen_by]
        rtts_ms = [run.task.rtts_ms["direct"] for run in those]
        panel.plot(rtts_ms, [run.gain for run in those], marker, color=color, label=f"relay taken by {chosen_by}")
    crowded = [run for run in runs if run.task.crowded]
    circles = {"markersize": 14, "fillstyle": "none", "color": "tab:red"}
    panel.plot([run.task.rtts_ms["direct"] for run in crowded], [run.gain for run in crowded], "o", **circles)  # type: ignore[arg-type]
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
