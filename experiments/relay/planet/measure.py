# SPDX-License-Identifier: Apache-2.0
"""Compute the gain of each method's relay for all ordered pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from controller.policy.paths.leg_throughput import Leg, throughput
from controller.policy.paths.relays import (
    Filters,
    near_ratio,
    passes_count_filter,
    passes_rtt_filter,
    passing_relays,
    ping,
    predicted,
    shared_ratio,
)
from controller.policy.paths.relays import traceroute as by_traceroute
from experiments.relay.planet.places import SETS
from experiments.relay.planet.plan import Plan
from experiments.relay.planet.readings import Readings
from experiments.relay.planet.routes import Routes

WINDOW_BYTES = 64 * 1024
ANY_COUNT, ANY_DISTANCE = Filters(0.0, 1.0), Filters(x=0.0, y=1.0)


@dataclass(frozen=True, slots=True)
class RelayChoice:
    """The chosen relay; empty: direct, or no relay for traceroute."""

    relay: str = ""
    gain: float = 0.0  # over direct, by equation (1) and true delays


@dataclass(frozen=True, slots=True)
class Pair:
    sender: str
    receiver: str
    rtt_ms: float  # true value
    ping: RelayChoice
    traceroute: RelayChoice
    ours: RelayChoice
    shared_ratio: float | None = None  # this and the rest: ping's relay
    near_ratio: float | None = None
    any_count: bool = False  # first filter, (p, q) = (0, 1)
    any_distance: bool = False  # second, (x, y) = (0, 1)
    survives: bool = False  # both, as printed


@dataclass(frozen=True, slots=True)
class Run:
    """One set of hosts on one planet."""

    set: str
    seed: int
    pairs: tuple[Pair, ...]
    stalled: str = ""  # nothing is timed

    @property
    def relayed(self) -> list[Pair]:
        """Return pairs with a better relay by ping."""
        return [pair for pair in self.pairs if pair.ping.relay]

    def __str__(self) -> str:
        found = self.relayed
        survive = sum(pair.survives for pair in found)
        return (
            f"{self.set}, planet {self.seed}: a better relay for {len(found)} of {len(self.pairs)} pairs; both filters "
            f"leave ping's in {survive}"
        )


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    for seed in range(1, plan.planets + 1):
        yield from (choose_relays(name, seed) for name in SETS)


def choose_relays(name: str, seed: int) -> Run:
    readings = Readings(SETS[name], seed)
    dice = Random(f"draws of {seed}")
    return Run(name, seed, tuple(_pair(readings, *each, dice.random()) for each in readings.pairs()))


def _pair(readings: Readings, sender: str, receiver: str, draw: float) -> Pair:
    direct, candidates, routes = readings.leg(sender, receiver), readings.candidates(sender, receiver), readings.routes

    def taken(relays: Sequence[str]) -> RelayChoice:
        return RelayChoice(relays[0], _gain(routes, sender, relays[0], receiver)) if relays else RelayChoice()

    by_ping = taken(ping(direct, candidates).relays)
    methods = (by_ping, taken(by_traceroute(direct, candidates, draw).relays))
    ours = taken(predicted(direct, candidates, window_bytes=WINDOW_BYTES).relays)
    rtt_ms = routes.rtt_ms(sender, receiver)
    if not by_ping.relay:
        return Pair(sender, receiver, rtt_ms, *methods, ours)
    best = next(each for each in candidates if each.name == by_ping.relay)
    return Pair(
        sender, receiver, rtt_ms, *methods, ours,
        shared_ratio(direct, best), near_ratio(direct, best),
        passes_count_filter(direct, best, ANY_COUNT), passes_rtt_filter(direct, best, ANY_DISTANCE),
        bool(passing_relays(direct, [best])),
    )  # fmt: skip


def _gain(routes: Routes, sender: str, relay: str, receiver: str) -> float:
    longer_ms = max(routes.rtt_ms(sender, relay), routes.rtt_ms(relay, receiver))
    direct_ms = routes.rtt_ms(sender, receiver)
    return throughput(Leg(longer_ms), WINDOW_BYTES).bps / throughput(Leg(direct_ms), WINDOW_BYTES).bps - 1
