# SPDX-License-Identifier: Apache-2.0
"""Plan the downloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from experiments.paper import paper002

CORNERS = tuple(product((0, 10), (0, 5)))  # of the paper's grid: Wi-Fi loss up and down, percent
PROMISED = (10, 5)  # cubic's promised corner
MODES = {"plain": "off", "bicast": "bicast"}  # plain MPTCP: each subflow on its own uplink
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Setting:
    congestion_control: str  # of the server
    lte_backup: bool

    def __str__(self) -> str:
        return f"{self.congestion_control}, LTE {'backup' if self.lte_backup else 'not backup'}"


SETTINGS = tuple(Setting(*each) for each in product(("cubic", "bbr"), (True, False)))


@dataclass(frozen=True, slots=True)
class Task:
    setting: Setting
    up_percent: int  # loss of Wi-Fi
    down_percent: int
    how: str  # plain or bicast
    number: int  # from 1


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    size_bytes: int
    tasks: tuple[Task, ...]  # tasks that share a laboratory are adjacent


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
    """Return the paper's whole grid, once for every setting before any repetition."""
    grid = tuple(sorted(paper002.seconds("plain"), key=lambda cell: cell[::-1]))
    rounds = range(1, REPEATS + 1)
    tasks = (task for number, setting in product(rounds, SETTINGS) for task in _round(setting, grid, number))
    return Plan("full", paper002.BYTES, tuple(tasks))


def _round(setting: Setting, cells: tuple[tuple[int, int], ...], number: int) -> Iterator[Task]:
    for (up, down), how in product(cells, MODES):
        yield Task(setting, up, down, how, number)


def _repeated(task: Task) -> bool:
    if task.setting.congestion_control == "bbr":
        return task.how == "bicast"
    return task.setting.lte_backup and (task.up_percent, task.down_percent) == PROMISED


ETHERNET_BYTES = 14  # counted by the shaper besides the IP packet
MTU_BYTES = 1500
HEADERS_BYTES = 20 + 20 + 12 + 28  # IPv4, TCP, timestamps, MPTCP's DSS with 64-bit numbers
FRAME_BYTES = MTU_BYTES + ETHERNET_BYTES
PAYLOAD_BYTES = MTU_BYTES - HEADERS_BYTES
