# SPDX-License-Identifier: Apache-2.0
"""Plan the faults and protections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

DOWNLOAD, UPLOAD = "download", "upload"
# `link down` is at the gateway's end. The other keeps its carrier, like a device behind an access point: packets to the
# terminal are lost.
BLACK, DOWN = "black both ways", "link down at the gateway"


@dataclass(frozen=True, slots=True)
class Protection:
    name: str
    mode: str  # of the gateway
    tuned: bool = False  # `bicast mptcp setup` at both ends
    armed: bool = False  # an agent at the sender
    controller_killed: bool = False  # before

    @property
    def is_default(self) -> bool:
        return not self.tuned and not self.armed


PROTECTIONS = (
    Protection("kernel's default, no bicast", "off"),
    Protection("kernel's default", "bicast"),
    Protection("mptcp setup", "bicast", tuned=True),
    Protection("agent's armed failover", "bicast", armed=True),
    Protection("mptcp setup, agent's armed failover", "bicast", tuned=True, armed=True),
    Protection("the same, controller killed", "bicast", tuned=True, armed=True, controller_killed=True),
)


@dataclass(frozen=True, slots=True)
class Task:
    fault: str
    direction: str
    way: Protection
    number: int  # from 1


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int
    ways: tuple[Protection, ...] = PROTECTIONS
    faults: tuple[str, ...] = (BLACK, DOWN)
    directions: tuple[str, ...] = (DOWNLOAD, UPLOAD)

    @property
    def tasks(self) -> Iterator[Task]:
        """Yield each combination once before any repetition, so that other load on the machine affects all alike."""
        for number in range(1, self.rounds + 1):
            for fault, direction, way in product(self.faults, self.directions, self.ways):
                yield Task(fault, direction, way, number)


QUICK = Plan("quick", 1)
FULL = Plan("full", 10)
