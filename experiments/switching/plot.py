"""The switches as a picture: from the order to the first data for each of them, and the longest pause of each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.switching.results import ONE_WAY_MS, PATIENCE_MS, PAUSE_MS
from experiments.switching.runs import Run

COLOURS = {"lte": "tab:orange", "wifi": "tab:blue"}


def draw(runs: Sequence[Run], file: Path) -> Path:
    good = [run for run in runs if not run.stalled]
    ways = list(dict.fromkeys((run.hand.name, run.queue) for run in good))
    figure = Figure(figsize=(11, 1.5 + 0.7 * len(ways)), layout="constrained")
    FigureCanvasAgg(figure)
    data, pauses = figure.subplots(1, 2, sharey=True)
    for place, way in enumerate(ways):
        for run in (run for run in good if (run.hand.name, run.queue) == way):
            for one in run.switches:
                if one.first_data is not None:
                    after_ms = (one.first_data - one.ordered) * 1000
                    data.plot(after_ms, place, ".", color=COLOURS[one.new])
            marker, colour = ("o", "tab:red") if run.switches else ("s", "tab:grey")
            pauses.plot(run.pause_s * 1000, place, marker, color=colour)
    for new, colour in COLOURS.items():
        data.plot([], [], ".", color=colour, label=f"to {new}")
    data.axvline(ONE_WAY_MS + PATIENCE_MS, color="grey", linestyle=":", label="promised")
    data.set_xlabel("order to first data by the new path, ms")
    data.set_yticks(range(len(ways)), [f"{hand}\nsender's queue <= {queue}" for hand, queue in ways])
    pauses.plot([], [], "o", color="tab:red", label="switched")
    pauses.plot([], [], "s", color="tab:grey", label="left in peace")
    pauses.axvline(PAUSE_MS, color="grey", linestyle=":", label="promised")
    pauses.set_xlabel("longest pause of the receiver, ms")
    for panel in (data, pauses):
        panel.set_xlim(left=0)
        panel.legend(fontsize="small", loc="upper right")
    data.invert_yaxis()
    figure.savefig(file, dpi=120)
    return file
