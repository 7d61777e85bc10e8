# SPDX-License-Identifier: Apache-2.0
"""Plan the downloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from experiments.paper import paper002

CORNERS = tuple(product((0, 10), (0, 5)))  # of the paper's grid: Wi-Fi loss up and down, percent
DIAGONAL = tuple((2 * down, down) for down in range(6))
PROMISED = (10, 5)  # cubic's promised corner
MODES = {"plain": "off", "bicast": "bicast"}  # plain MPTCP: each subflow on its own uplink
REPEATS = 3
PAPER_REPEATS = 5  # of corners and diagonal, in the paper's setting


NETWORKS = {  # beside the paper's laboratory
    "relay": ", through a relay",  # of the paper's figure 1; the server has no MPTCP
    "laptop": ", on the terminal itself",  # Open vSwitch runs there
}


@dataclass(frozen=True, slots=True)
class Setting:
    congestion_control: str  # of the server
    lte_backup: bool
    frames_lost: bool = False  # Wi-Fi loses offloaded frames of up to 64 kB on the way down; otherwise packets
    network: str = "paper"  # or a key of NETWORKS

    def __str__(self) -> str:
        more = (", frames lost" if self.frames_lost else "") + NETWORKS.get(self.network, "")
        return f"{self.congestion_control}, LTE {'backup' if self.lte_backup else 'not backup'}{more}"

    @property
    def word(self) -> str:
        """Return the name on the command line."""
        more = (",frames" if self.frames_lost else "") + (f",{self.network}" if self.network in NETWORKS else "")
        return f"{self.congestion_control},{'backup' if self.lte_backup else 'equal'}{more}"


SETTINGS = tuple(Setting(*each) for each in product(("cubic", "bbr"), (True, False)))
PAPER = SETTINGS[0]
FRAMES = replace(PAPER, frames_lost=True)
RELAY, LAPTOP = (replace(PAPER, network=name) for name in NETWORKS)
ALL_SETTINGS = (*SETTINGS, FRAMES, RELAY, LAPTOP)


@dataclass(frozen=True, slots=True)
class Task:
    setting: Setting
    up_percent: int  # loss of Wi-Fi
    down_percent: int
    how: str  # plain or bicast
    number: int  # from 1

    @property
    def cell(self) -> tuple[int, int]:
        return self.up_percent, self.down_percent


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    size_bytes: int
    tasks: tuple[Task, ...]  # tasks that share a laboratory are adjacent

    def of(self, setting: Setting) -> Plan:
        return replace(self, tasks=tuple(task for task in self.tasks if task.setting == setting))


def quick() -> Plan:
    """Return the corners; promised values three times, but cubic's slow downloads only where LTE is backup, as in the
    paper.
    """
    rounds = range(1, REPEATS + 1)
    tasks = (
        task
        for setting, number in product(SETTINGS, rounds)
        for task in _round(setting, CORNERS, number)
        if number == 1 or _repeated(task)
    )
    return Plan("quick", 50_000_000, tuple(tasks))


def full() -> Plan:
    """Return the paper's grid once, then repetitions in its setting, then the other settings in turns."""
    grid = tuple(sorted(paper002.seconds("plain"), key=lambda cell: cell[::-1]))
    ends = tuple(sorted({*CORNERS, *DIAGONAL}, key=lambda cell: cell[::-1]))
    tasks = list(_round(PAPER, grid, 1))
    for number in range(2, PAPER_REPEATS + 1):
        tasks += _round(PAPER, ends, number)
    for number, setting in product(range(1, REPEATS + 1), (FRAMES, *SETTINGS[1:], RELAY, LAPTOP)):
        tasks += _round(setting, DIAGONAL if setting.frames_lost else CORNERS, number)
    return Plan("full", paper002.BYTES, tuple(tasks))


def _round(setting: Setting, cells: tuple[tuple[int, int], ...], number: int) -> Iterator[Task]:
    for (up, down), how in product(cells, MODES):
        yield Task(setting, up, down, how, number)


def _repeated(task: Task) -> bool:
    if task.setting.congestion_control == "bbr":
        return task.how == "bicast"
    return task.setting.lte_backup and task.cell == PROMISED


OVERHEAD_S = 3.0  # of a download: its checksum, and its share of the laboratory


def expected_s(tasks: Iterable[Task], size_bytes: int, measured: Iterable[tuple[Task, float]]) -> float:
    """Return how long the tasks take: as the same cell before, otherwise as the paper's, times the median ratio."""
    before: dict[tuple[Setting, tuple[int, int], str], list[float]] = {}
    ratios: dict[Setting, list[float]] = {}
    paper = {how: paper002.seconds(how) for how in MODES}
    share = size_bytes / paper002.BYTES
    for task, seconds in measured:
        before.setdefault((task.setting, task.cell, task.how), []).append(seconds)
        ratios.setdefault(task.setting, []).append(seconds / (paper[task.how][task.cell] * share))
    whole = 0.0
    for task in tasks:
        same = before.get((task.setting, task.cell, task.how))
        like = paper[task.how][task.cell] * share * median(ratios.get(task.setting, [1.0]))
        whole += (median(same) if same else like) + OVERHEAD_S
    return whole


ETHERNET_BYTES = 14  # counted by the shaper besides the IP packet
MTU_BYTES = 1500
HEADERS_BYTES = 20 + 20 + 12 + 28  # IPv4, TCP, timestamps, MPTCP's DSS with 64-bit numbers
FRAME_BYTES = MTU_BYTES + ETHERNET_BYTES
PAYLOAD_BYTES = MTU_BYTES - HEADERS_BYTES
