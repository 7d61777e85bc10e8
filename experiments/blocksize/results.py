"""What the uploads come to, beside what paper 003 says of its own, and a line for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from experiments import paper003
from experiments.blocksize.lab import GOODPUT_BPS
from experiments.blocksize.plan import MOST_BYTES, Task, said
from experiments.blocksize.runs import Run
from lab.results.figures import Figure, figure, middle, worst

HEADER = (
    "terminals", "block_bytes", "low_water_bytes", "terminal", "mbit_s", "together_mbit_s", "jain", "sent_again",
    "most_window_segments", "most_unsent_bytes", "cpu_s",
)  # fmt: skip


def figures(runs: Iterable[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for terminals in dict.fromkeys(run.task.terminals for run in good):
        those = [run for run in good if run.task.terminals == terminals]
        for task in dict.fromkeys(run.task for run in those):
            yield from _of_task(task, [run for run in those if run.task == task])
        yield from _beside_the_paper(terminals, those)


def _of_task(task: Task, runs: Sequence[Run]) -> Iterator[Figure]:
    yield middle(f"{task}: together", [run.bps / 1e6 for run in runs], "Mbit/s")
    if task.terminals > 1:
        yield middle("  Jain's index", [run.jain for run in runs], "")
        yield middle("  the terminals apart by", [run.apart_bps / 1e6 for run in runs], "Mbit/s")
    if task.block_bytes == MOST_BYTES:
        yield worst("  unsent in a socket", [run.unsent_bytes / 1e3 for run in runs], "kB")
    yield middle("  segments sent again", [float(run.again) for run in runs], "segments")


def _beside_the_paper(terminals: int, runs: Sequence[Run]) -> Iterator[Figure]:
    by_block: dict[int, list[float]] = {}
    for run in runs:
        if not run.task.low_water_bytes:
            by_block.setdefault(run.task.block_bytes, []).append(run.bps)
    best = max((median(each) for each in by_block.values()), default=GOODPUT_BPS)
    for one in paper003.said():
        if one.terminals != terminals:
            continue
        least, most = said(one.least_block_bytes), said(one.most_block_bytes)
        blocks = least if least == most else f"{least} to {most}"
        if one.value is not None:
            yield Figure(f"  paper 003, writes of {blocks}: {one.what}", one.value, one.unit, 0, one.value, one.value)
            continue
        inside = [
            bps
            for block, those in by_block.items()
            if one.least_block_bytes <= block <= one.most_block_bytes
            for bps in those
        ]
        if inside:
            shares = [100 * bps / best for bps in inside]
            yield figure(f"  writes of {blocks}, the paper's best: of the best here", median(shares), shares, "%")
    if MOST_BYTES in by_block:
        shares = [100 * bps / best for bps in by_block[MOST_BYTES]]
        yield figure(
            f"  writes of {said(MOST_BYTES)}, which fall in the paper: of the best here", median(shares), shares, "%"
        )


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    task = run.task
    for number, one in enumerate(run.uploads, 1):
        most = (round(max(one.window_segments, default=0.0)), round(max(one.unsent_bytes, default=0.0)))
        told = (f"{one.bps / 1e6:.3f}", f"{run.bps / 1e6:.3f}", f"{run.jain:.4f}", one.again, *most, f"{one.cpu_s:.3f}")
        yield task.terminals, task.block_bytes, task.low_water_bytes, number, *told
