# SPDX-License-Identifier: Apache-2.0
"""Plan pairs, relays and losses, from a planet's readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from controller.policy.paths.leg_throughput import Leg
from controller.policy.paths.relays import Candidate, ping, predicted
from experiments.relay.planet.places import CONTINENT_OF, SETS
from experiments.relay.planet.readings import Readings

PLANET = 1
# The largest window at each window scale, for 64, 256 and 1024 KiB, which the kernel keeps.
WINDOWS = tuple(65535 << scale for scale in (0, 2, 4))
WINDOW_BYTES = WINDOWS[0]
# Direct transfers then reach about the paper's share of equation (1): 81 and 28 %.
LOSS_OF_100_MS = {"US-Europe": 6e-4, "Asia-US": 4.7e-3}
SENDING_FROM = {"US-Europe": "us", "Asia-US": "asia"}


@dataclass(frozen=True, slots=True)
class Task:
    set: str
    sender: str
    receiver: str
    relay: str
    chosen_by: str  # "ping", "ours", or both
    rtts_ms: dict[str, float]  # true: direct, near, far
    window_bytes: int = WINDOW_BYTES
    busy: bool = False  # the relay's processor
    lossless: bool = False

    def loss(self, link: str) -> float:
        return 0.0 if self.lossless else _loss(self.set, self.rtts_ms[link])

    def __str__(self) -> str:
        busy = ", crowded" if self.busy else ""
        window = f", {self.window_bytes / 1024:.0f} KiB" if self.window_bytes != WINDOW_BYTES else ""
        return f"{self.set}: {self.sender} to {self.receiver} by {self.relay} ({self.chosen_by}{busy}{window})"


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    pairs: int  # per set
    size_bytes: int
    rounds: int


QUICK, FULL = Plan("quick", 12, 4_000_000, 1), Plan("full", 24, 10_000_000, 5)
SWEPT = 2  # of the first set, for each further window
SWEPT_WINDOWS = 40  # size of a transfer in windows: slow start matters little


def choose_tasks(pairs: int, overheads_ms: Mapping[bool, float]) -> list[Task]:
    """Return the tasks of both sets, with relays chosen by ping and by us.

    The relay that ping chooses most often in the first set is busy. Ping does not see that; we do, by its overhead.
    """
    busiest = ""
    tasks: list[Task] = []
    for name in SETS:
        by_ping = {pair: ping(*_direct_and_others(name, pair)).relays[0] for pair in sample_pairs(name, pairs)}
        busiest = busiest or Counter(by_ping.values()).most_common(1)[0][0]
        for pair, relay in by_ping.items():
            ours = _ours(name, pair, busiest, overheads_ms)
            tasks.append(_task(name, pair, relay, "ping, ours" if relay == ours else "ping", relay == busiest))
            if ours and ours != relay:
                tasks.append(_task(name, pair, ours, "ours", ours == busiest))
    return tasks


def sweep_tasks() -> list[tuple[Task, int]]:
    """Return lossless tasks with wider windows, and the size of each transfer: only the window limits them."""
    name = next(iter(SETS))
    return [
        (
            replace(
                _task(name, pair, ping(*_direct_and_others(name, pair)).relays[0], "ping", False),
                window_bytes=window_bytes,
                lossless=True,
            ),
            SWEPT_WINDOWS * window_bytes,
        )
        for window_bytes in WINDOWS
        for pair in sample_pairs(name, SWEPT)
    ]


def sample_pairs(name: str, count: int) -> list[tuple[str, str]]:
    """Return pairs across an ocean, spread over their RTTs."""
    every = [pair for pair in readings(name).pairs() if _crosses(name, *pair)]
    every.sort(key=lambda pair: readings(name).routes.rtt_ms(*pair))
    return [every[int((number + 0.5) * len(every) / count)] for number in range(count)]


@cache
def readings(name: str) -> Readings:
    return Readings(SETS[name], PLANET)


def _crosses(name: str, sender: str, receiver: str) -> bool:
    return CONTINENT_OF[sender] == SENDING_FROM[name] != CONTINENT_OF[receiver]


def _direct_and_others(name: str, pair: tuple[str, str]) -> tuple[Leg, list[Candidate]]:
    return readings(name).leg(*pair), readings(name).candidates(*pair)


def _ours(name: str, pair: tuple[str, str], busiest: str, overheads_ms: Mapping[bool, float]) -> str | None:
    direct, candidates = _direct_and_others(name, pair)
    known = [
        Candidate(
            each.name,
            _lossy(name, each.near),
            _lossy(name, each.far),
            overhead_ms=overheads_ms[each.name == busiest],
        )
        for each in candidates
    ]
    return next(iter(predicted(_lossy(name, direct), known, window_bytes=WINDOW_BYTES).relays), None)


def _lossy(name: str, leg: Leg) -> Leg:
    return Leg(leg.rtt_ms, _loss(name, leg.rtt_ms))


def _loss(name: str, rtt_ms: float) -> float:
    """Return the loss, which grows with the length of the path."""
    return LOSS_OF_100_MS[name] * rtt_ms / 100


def _task(name: str, pair: tuple[str, str], relay: str, chosen_by: str, busy: bool) -> Task:
    sender, receiver = pair
    ways = {"direct": pair, "near": (sender, relay), "far": (relay, receiver)}
    rtts_ms = {link: readings(name).routes.rtt_ms(*way) for link, way in ways.items()}
    return Task(name, sender, receiver, relay, chosen_by, rtts_ms, busy=busy)
