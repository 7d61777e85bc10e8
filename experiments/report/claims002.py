# SPDX-License-Identifier: Apache-2.0
"""Paper 002's claims of section 4.4, tested on the published downloads."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from experiments.paper import paper002
from experiments.report.findings import CONFIRMED, MISSING, NOT_CONFIRMED, Finding
from experiments.report.paper002 import WINDOWS, results_of
from experiments.transfer.plan import MODES, PAPER
from experiments.transfer.report import Results
from experiments.transfer.rows import Row
from experiments.windows import report as windows
from lab.results.significance import Slope, permutation_test, sign_test, slope

SIGNIFICANT = 0.05
LOSS_RANGE = 10  # percent of uplink loss that the paper's claim spans
COUNTED_ONCE = "Linux counts acknowledged bytes, so that a copy of an acknowledgement adds nothing to its window."

Cell = tuple[int, int]


def findings(downloads: Sequence[Row]) -> list[Finding]:
    results = results_of(downloads)
    return [_faster_everywhere(results), _flat(results), _faster_without_uplink_loss(results), _wider_window()]


def _pairs(results: Results) -> dict[Cell, tuple[float, float]]:
    """Return the median seconds of plain and bicast in each cell that has both."""
    found = {}
    for cell in paper002.seconds("plain"):
        plain, bicast = (results.reading(PAPER, cell, how) for how in ("plain", "bicast"))
        if plain and bicast:
            found[cell] = (plain.seconds, bicast.seconds)
    return found


def _finding(claim: str, verdict: str, measured: str, sentence: str) -> Finding:
    return Finding("002", claim, "§4.4", verdict, measured, sentence)


def _faster_everywhere(results: Results) -> Finding:
    pairs, whole = _pairs(results), len(paper002.seconds("plain"))
    faster = sum(bicast < plain for plain, bicast in pairs.values())
    claim = "Bicast transfers the file faster than plain MPTCP at every loss."
    if len(pairs) < whole:
        measured = f"faster in {faster} of {len(pairs)} cells"
        return _finding(claim, MISSING, measured, f"{whole - len(pairs)} of {whole} cells are not measured.")
    chance = sign_test(faster, whole)
    slower = [plain / bicast for plain, bicast in pairs.values() if bicast >= plain]
    rest = f" In the others bicast takes up to {1 / min(slower):.2f} of plain's time." if slower else ""
    sentence = f"A sign test gives p = {chance:.2g}.{rest}"
    return _finding(claim, NOT_CONFIRMED if slower else CONFIRMED, f"faster in {faster} of {whole} cells", sentence)


def _flat(results: Results) -> Finding:
    claim = "Bicast loses only about 1 s when uplink loss grows from 0 to 10 %; plain MPTCP loses far more."
    slopes: dict[str, Slope] = {}
    for how in MODES:
        points = [
            (down, float(up), run)
            for (up, down) in paper002.seconds(how)
            for run in results.runs(PAPER, (up, down), how)
        ]
        if len({(down, up) for down, up, _ in points}) < len(paper002.seconds(how)):
            return _finding(claim, MISSING, "", "Not all 66 cells are measured.")
        slopes[how] = slope(points)
    paper = slope([(down, float(up), seconds) for (up, down), seconds in paper002.seconds("bicast").items()])
    here = {how: f"{one.value * LOSS_RANGE:+.1f} ± {one.half_width * LOSS_RANGE:.1f} s" for how, one in slopes.items()}
    verdict = (
        CONFIRMED
        if slopes["bicast"].overlaps(paper) and slopes["plain"].value > slopes["bicast"].value
        else NOT_CONFIRMED
    )
    measured = f"bicast {here['bicast']}, plain {here['plain']} (n = {slopes['bicast'].n} each)"
    sentence = (
        f"The paper's own table 5 has {paper.value * LOSS_RANGE:+.1f} ± {paper.half_width * LOSS_RANGE:.1f} s. "
        "Slopes are least squares over all losses down, with 95 % intervals."
    )
    return _finding(claim, verdict, measured, sentence)


def _faster_without_uplink_loss(results: Results) -> Finding:
    claim = "Bicast is faster even without uplink loss."
    chances, words = [], []
    for cell in ((0, 0), (0, 5)):
        plain, bicast = (results.reading(PAPER, cell, how) for how in ("plain", "bicast"))
        if plain is None or bicast is None or min(plain.n, bicast.n) < 4:
            return _finding(
                claim, MISSING, "", f"At {cell[1]} % down fewer than 4 downloads of each mode are measured."
            )
        chances.append(permutation_test(bicast.runs, plain.runs))
        words.append(f"{mean(bicast.runs):.1f} s beside {mean(plain.runs):.1f} s at {cell[1]} % down (n = {bicast.n})")
    verdict = CONFIRMED if max(chances) < SIGNIFICANT else NOT_CONFIRMED
    sentence = f"Permutation tests give p = {chances[0]:.2g} and p = {chances[1]:.2g}."
    return _finding(claim, verdict, "; ".join(words), sentence)


def _wider_window() -> Finding:
    claim = "Copied acknowledgements open the server's window sooner (the paper's explanation)."
    runs = windows.read(WINDOWS)
    if not runs:
        return _finding(claim, MISSING, "", "`./bicast experiment windows --full` was not run.")
    count, pairs, chance = windows.wider(runs)
    sentence = f"A sign test over pairs of downloads without uplink loss gives p = {chance:.2g}. {COUNTED_ONCE}"
    verdict = CONFIRMED if chance < SIGNIFICANT else NOT_CONFIRMED
    return _finding(claim, verdict, f"wider in {count} of {pairs} pairs", sentence)
