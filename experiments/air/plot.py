"""The runs as a picture: totals, fairness and round trips by terminals at each distance, and what is special."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.air.plan import Scene, Variant
from experiments.air.results import by_scene
from experiments.air.runs import Run

SHOWN: tuple[tuple[str, Callable[[Run], float]], ...] = (
    ("total, Mbit/s", lambda run: run.total_bps / 1e6),
    ("Jain's index", lambda run: run.jain),
    ("srtt / least RTT", lambda run: run.ratio),
)
Scenes = dict[Scene, dict[Variant, list[Run]]]


def draw(runs: Sequence[Run], file: Path) -> Path:
    found = by_scene(runs)
    plain = {scene: each for scene, each in found.items() if scene == Scene(scene.terminals, scene.rtt)}
    special = {scene: each for scene, each in found.items() if scene not in plain}
    rtts = list(dict.fromkeys(scene.rtt for scene in plain))
    variants = dict.fromkeys(variant for each in plain.values() for variant in each)
    colours = {variant: f"C{number}" for number, variant in enumerate(variants)}
    figure = Figure(figsize=(3.4 * max(len(rtts), 3), 3 * len(SHOWN) + 3), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(len(SHOWN), 1))[:, 0]
    panels = above.subplots(len(SHOWN), max(len(rtts), 1), squeeze=False, sharex=True, sharey="row")
    for row, (what, value) in zip(panels, SHOWN, strict=True):
        row[0].set_ylabel(what)
        for panel, rtt in zip(row, rtts, strict=False):
            _curves(panel, {scene: each for scene, each in plain.items() if scene.rtt == rtt}, value, colours)
    for panel, rtt in zip(panels[0], rtts, strict=False):
        panel.set_title(f"{rtt} ms", fontsize="medium")
    for panel in panels[-1]:
        panel.set_yscale("log")
        panel.set_xlabel("terminals")
    handles, labels = panels[0][0].get_legend_handles_labels()
    if handles:
        above.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")
    _bars(below.subplots(), special)
    figure.savefig(file, dpi=120)
    return file


def _curves(panel: Axes, scenes: Scenes, value: Callable[[Run], float], colours: Mapping[Variant, str]) -> None:
    for variant, colour in colours.items():
        points = [(scene.terminals, each[variant]) for scene, each in scenes.items() if variant in each]
        middles = [median(value(run) for run in runs) for _, runs in points]
        panel.plot([at for at, _ in points], middles, "o-", color=colour, label=str(variant))


def _bars(panel: Axes, scenes: Scenes) -> None:
    names, totals = [], []
    for scene, variants in scenes.items():
        for variant, runs in variants.items():
            names.append(f"{scene}; {variant}")
            totals.append(median(run.total_bps / 1e6 for run in runs))
    panel.barh(names, totals)
    panel.invert_yaxis()
    panel.tick_params(axis="y", labelsize="x-small")
    panel.set_xlabel("total, Mbit/s")
