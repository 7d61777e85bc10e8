"""Paper 002's figures 4 to 9: seconds over what Wi-Fi loses up, a figure for each loss down.

The paper's curves stand in the first panel of each figure, what was measured in the others, one for each setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments import paper002
from experiments.transfer.results import Results, limit_bps

FIRST_FIGURE = 4  # of the paper, no loss down
STYLES: dict[str, dict[str, Any]] = {
    "plain": {"color": "tab:red", "marker": "s", "label": "plain MPTCP"},
    "bicast": {"color": "tab:blue", "marker": "o", "label": "bicast"},
}


def draw(results: Results, directory: Path, name: str) -> list[Path]:
    """A PNG for each loss down that was measured; `name` begins their names."""
    downs = sorted({down for setting in results.settings for _, down in results.cells(setting)})
    return [_figure(results, down, directory / f"{name}-figure{FIRST_FIGURE + down}.png") for down in downs]


def _figure(results: Results, down: int, file: Path) -> Path:
    figure = Figure(figsize=(3.4 * (1 + len(results.settings)), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    first, *others = figure.subplots(1, 1 + len(results.settings), squeeze=False)[0]
    _paper(first, down)
    for panel, setting in zip(others, results.settings, strict=True):
        cells = [cell for cell in results.cells(setting) if cell[1] == down]
        for how, style in STYLES.items():
            points = [(up, one) for up, _ in cells if (one := results.reading(setting, (up, down), how))]
            middle = [one.seconds for _, one in points]
            spread = [
                [one.seconds - one.least for _, one in points],
                [one.most - one.seconds for _, one in points],
            ]
            panel.errorbar([up for up, _ in points], middle, yerr=spread, capsize=3, **style)
        panel.axhline(results.size_bytes * 8 / limit_bps(setting), color="grey", linestyle=":", label="limit")
        _finish(panel, f"here: {setting}", results.size_bytes)
    figure.suptitle(f"Wi-Fi loses {down} % down (the paper's figure {FIRST_FIGURE + down})")
    figure.savefig(file, dpi=120)
    return file


def _paper(panel: Any, down: int) -> None:
    for how, style in STYLES.items():
        points = [(up, seconds) for (up, at), seconds in paper002.seconds(how).items() if at == down]
        panel.plot(*zip(*points, strict=True), **style)
    _finish(panel, "paper 002", paper002.BYTES)


def _finish(panel: Any, title: str, size_bytes: int) -> None:
    panel.set_title(title, fontsize="medium")
    panel.set_xlabel("Wi-Fi loss up, %")
    panel.set_ylabel(f"seconds for {size_bytes / 1e6:.0f} MB")
    panel.set_ylim(bottom=0)
    panel.legend(fontsize="small")
