"""The pauses as a picture: a panel for each death, a row for each way, a mark for each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.failover.results import MEDIAN_MS, WORST_MS, pauses_ms
from experiments.failover.runs import Run


def draw(runs: Sequence[Run], file: Path) -> Path:
    deaths = pauses_ms(runs)
    ways = list(dict.fromkeys(way for found in deaths.values() for way in found))
    figure = Figure(figsize=(3 + 3 * len(deaths), 1.5 + 0.45 * len(ways)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(deaths), sharey=True, sharex=True, squeeze=False)[0]
    for panel, ((fault, direction), found) in zip(panels, deaths.items(), strict=True):
        for place, way in enumerate(ways):
            values = found.get(way, ())
            panel.plot(values, [place] * len(values), ".", color="tab:grey" if way.is_default else "tab:blue")
            if values:
                panel.plot(median(values), place, "|", markersize=16, color="black")
        panel.axvline(MEDIAN_MS, color="grey", linestyle=":")
        panel.axvline(WORST_MS, color="grey", linestyle="--")
        panel.set_title(f"{fault},\n{direction}", fontsize="medium")
        panel.set_xlabel("longest pause, ms")
        panel.set_xlim(left=0)
    panels[0].set_yticks(range(len(ways)), [way.name for way in ways])
    panels[0].invert_yaxis()
    figure.suptitle(
        f"promised of the best way: median (|) <= {MEDIAN_MS} ms, worst <= {WORST_MS} ms", fontsize="medium"
    )
    figure.savefig(file, dpi=120)
    return file
