# SPDX-License-Identifier: Apache-2.0
"""Between whom it is transferred, by which relay, and what is lost on the way: taken from a planet's own readings."""

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
# Windows that the kernel cannot but keep: the most that is told by each scale, of 64, 256 and 1024 KiB.
WINDOWS = tuple(65535 << scale for scale in (0, 2, 4))
WINDOW_BYTES = WINDOWS[0]
# Chosen so that direct transfers have about the part of equation (1) that the paper says: 81 and 28 %.
LOSS_OF_100_MS = {"US-Europe": 6e-4, "Asia-US": 4.7e-3}
SENDING_FROM = {"US-Europe": "us", "Asia-US": "asia"}


@dataclass(frozen=True, slots=True)
class Task:
    """One transfer by a relay, and the same directly beside it."""

    set: str
    sender: str
    receiver: str
    relay: str
    chosen_by: str  # "ping", "ours", or both
    rtts_ms: dict[str, float]  # direct, near, far: truly
    window_bytes: int = WINDOW_BYTES
    crowded: bool = False  # the relay's processor has no time for it
    lossless: bool = False

    def loss(self, link: str) -> float:
        return 0.0 if self.lossless else _loss(self.set, self.rtts_ms[link])

    def __str__(self) -> str:
        crowded = ", crowded" if self.crowded else ""
        window = f", {self.window_bytes / 1024:.0f} KiB" if self.window_bytes != WINDOW_BYTES else ""
        return f"{self.set}: {self.sender} to {self.receiver} by {self.relay} ({self.chosen_by}{crowded}{window})"


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/transfers are named so
    pairs: int  # of each set
    size_bytes: int
    rounds: int


QUICK, FULL = Plan("quick", 12, 4_000_000, 1), Plan("full", 24, 10_000_000, 5)
SWEPT = 2  # pairs of the first set, by each further window
SWEPT_WINDOWS = 40  # of bytes, so that the beginning counts little


def chosen(pairs: int, overheads_ms: Mapping[bool, float]) -> list[Task]:
    """Of both sets, by ping and by us. The relay that ping takes most often in the first set is crowded, which ping
    does not see, and we do by its overhead."""
    busiest = ""
    tasks: list[Task] = []
    for name in SETS:
        by_ping = {pair: ping(*_direct_and_others(name, pair)).relays[0] for pair in sampled(name, pairs)}
        busiest = busiest or Counter(by_ping.values()).most_common(1)[0][0]
        for pair, relay in by_ping.items():
            ours = _ours(name, pair, busiest, overheads_ms)
            tasks.append(_task(name, pair, relay, "ping, ours" if relay == ours else "ping", relay == busiest))
            if ours and ours != relay:
                tasks.append(_task(name, pair, ours, "ours", ours == busiest))
    return tasks


def swept() -> list[tuple[Task, int]]:
    """With windows that are wider, and how much is transferred by each. Nothing is lost: the window is what counts."""
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
        for pair in sampled(name, SWEPT)
    ]


def sampled(name: str, count: int) -> list[tuple[str, str]]:
    """Pairs with an ocean between them, spread over their RTTs."""
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
    """Every stretch of a way loses alike."""
    return LOSS_OF_100_MS[name] * rtt_ms / 100


def _task(name: str, pair: tuple[str, str], relay: str, chosen_by: str, crowded: bool) -> Task:
    sender, receiver = pair
    ways = {"direct": pair, "near": (sender, relay), "far": (relay, receiver)}
    rtts_ms = {link: readings(name).routes.rtt_ms(*way) for link, way in ways.items()}
    return Task(name, sender, receiver, relay, chosen_by, rtts_ms, crowded=crowded)
