# SPDX-License-Identifier: Apache-2.0
"""Simulate ping and traceroute: the graph's delays with noise.

A reading is the mean of three packets; the paper gives no number. Some routers do not answer traceroute.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from controller.policy.paths.leg_throughput import Leg, LegRouter
from controller.policy.paths.relays import Candidate
from experiments.relay.planet.routes import Hop, Routes

PACKETS = 3
WAITS_MS = 0.5  # mean queueing delay
SPIKE_SHARE, SPIKE_MS = 0.02, 15.0
ROUTER_ANSWERS_MS = 1.0  # mean, of its own answer
SILENT_SHARE = 0.08


class Readings:
    """Readings: each pair is measured once."""

    def __init__(self, hosts: tuple[str, ...], seed: int) -> None:
        self.hosts = hosts
        self.routes = Routes(hosts, seed)
        self._seed = seed
        self._dice = Random(f"readings of {seed}")
        self.leg = cache(self._leg)

    def pairs(self) -> Iterator[tuple[str, str]]:
        for sender in self.hosts:
            yield from ((sender, receiver) for receiver in self.hosts if receiver != sender)

    def candidates(self, sender: str, receiver: str) -> list[Candidate]:
        """Return all other hosts; as in the paper, relays themselves cost nothing."""
        return [
            Candidate(relay, self.leg(sender, relay), self.leg(relay, receiver), overhead_ms=0.0)
            for relay in self.hosts
            if relay not in (sender, receiver)
        ]

    def _leg(self, one: str, other: str) -> Leg:
        routers = tuple(self._router(one, hop) for hop in self.routes.way(one, other).hops)
        return Leg(self._mean(self.routes.rtt_ms(one, other), 0.0), routers=routers)

    def _router(self, sender: str, hop: Hop) -> LegRouter:
        silent = Random(f"{hop.router} of {self._seed}").random() < SILENT_SHARE
        # each path names a silent router differently
        name = f"* of {sender} to {hop.router}" if silent else hop.router
        return LegRouter(name, self._mean(self.routes.rtt_of_hop_ms(sender, hop), ROUTER_ANSWERS_MS))

    def _mean(self, least_ms: float, answers_ms: float) -> float:
        return least_ms + sum(self._beside_ms(answers_ms) for _ in range(PACKETS)) / PACKETS

    def _beside_ms(self, answers_ms: float) -> float:
        dice = self._dice
        spike_ms = dice.expovariate(1 / SPIKE_MS) if dice.random() < SPIKE_SHARE else 0.0
        slow_ms = dice.expovariate(1 / answers_ms) if answers_ms else 0.0
        return dice.expovariate(1 / WAITS_MS) + spike_ms + slow_ms
