"""What the rows come to: for each cell of the grid the median and spread, the limit, and whether promises were kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from experiments import paper002
from experiments.transfer.plan import PROMISED, SETTINGS, Setting
from experiments.transfer.rows import Row
from topologies.paper import LTE_BPS, WIFI_BPS

ETHERNET_BYTES = 14  # what the shaper counts beside the IP packet
MTU_BYTES = 1500
HEADERS_BYTES = 20 + 20 + 12 + 28  # IPv4, TCP, its timestamps, MPTCP's DSS with 64-bit numbers
FRAME_BYTES = MTU_BYTES + ETHERNET_BYTES
PAYLOAD_BYTES = MTU_BYTES - HEADERS_BYTES
CUBIC_RATIO = 0.65  # of plain's time, at most
BBR_OF_LIMIT = 1.20  # of the time that the limit allows, at most

Cell = tuple[int, int]  # Wi-Fi loss up and down, percent


def limit_bps(setting: Setting) -> float:
    """TCP's payload over the usable paths. Loss comes before the shaper's queue, so it takes nothing away from it."""
    rate_bps = WIFI_BPS if setting.lte_backup else WIFI_BPS + LTE_BPS
    return rate_bps * PAYLOAD_BYTES / FRAME_BYTES


@dataclass(frozen=True, slots=True)
class Reading:
    """One cell, one way of sending."""

    runs: tuple[float, ...]  # seconds, sorted

    @property
    def seconds(self) -> float:
        return median(self.runs)

    @property
    def n(self) -> int:
        return len(self.runs)

    @property
    def least(self) -> float:
        return self.runs[0]

    @property
    def most(self) -> float:
        return self.runs[-1]


class Results:
    def __init__(self, rows: Iterable[Row], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.bad = 0
        runs: dict[tuple[Setting, Cell, str], list[float]] = {}
        for row in rows:
            if not row.good:
                self.bad += 1
                continue
            cell = (row.task.up_percent, row.task.down_percent)
            runs.setdefault((row.task.setting, cell, row.task.how), []).append(row.seconds)
        self._readings = {key: Reading(tuple(sorted(those))) for key, those in runs.items()}

    def reading(self, setting: Setting, cell: Cell, how: str) -> Reading | None:
        return self._readings.get((setting, cell, how))

    @property
    def settings(self) -> list[Setting]:
        there = {setting for setting, _, _ in self._readings}
        return [setting for setting in SETTINGS if setting in there]

    def cells(self, setting: Setting) -> list[Cell]:
        """Those that were measured, by loss down and then up."""
        return sorted({cell for where, cell, _ in self._readings if where == setting}, key=lambda cell: cell[::-1])

    def ratio(self, setting: Setting, cell: Cell) -> float | None:
        """Bicast's time as a share of plain's."""
        bicast, plain = (self.reading(setting, cell, how) for how in ("bicast", "plain"))
        return bicast.seconds / plain.seconds if bicast and plain else None

    def bps(self, reading: Reading) -> float:
        return self.size_bytes * 8 / reading.seconds

    def of_limit(self, setting: Setting, cell: Cell) -> float | None:
        """Bicast's time as a share of what the limit allows."""
        bicast = self.reading(setting, cell, "bicast")
        return limit_bps(setting) / self.bps(bicast) if bicast else None


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    setting: Setting
    bound: float
    measured: float | None  # None: not measured yet
    where: Cell | None
    n: int
    paper: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.measured is None else self.measured <= self.bound


def verdicts(results: Results) -> list[Verdict]:
    return [_verdict(results, setting) for setting in SETTINGS]


def _verdict(results: Results, setting: Setting) -> Verdict:
    if setting.congestion_control == "cubic":
        paper = paper002.seconds("bicast")[PROMISED] / paper002.seconds("plain")[PROMISED]
        promise = (
            f"at Wi-Fi loss {PROMISED[0]} % up and {PROMISED[1]} % down bicast takes <= {CUBIC_RATIO} of plain's time"
        )
        measured = results.ratio(setting, PROMISED)
        n = min((one.n for how in ("bicast", "plain") if (one := results.reading(setting, PROMISED, how))), default=0)
        return Verdict(promise, setting, CUBIC_RATIO, measured, PROMISED, n, paper)
    promise = f"at every loss bicast takes <= {BBR_OF_LIMIT:.2f} of the time that the limit allows"
    found = {cell: share for cell in results.cells(setting) if (share := results.of_limit(setting, cell)) is not None}
    if not found:
        return Verdict(promise, setting, BBR_OF_LIMIT, None, None, 0)
    worst = max(found, key=found.__getitem__)
    reading = results.reading(setting, worst, "bicast")
    return Verdict(promise, setting, BBR_OF_LIMIT, found[worst], worst, reading.n if reading else 0)
