# SPDX-License-Identifier: Apache-2.0
"""Which deaths of a path the failover experiment looks at, and in which ways it is survived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

DOWNLOAD, UPLOAD = "download", "upload"
# `link down` is the gateway's end of the uplink: the other end keeps its carrier, like what stands behind an access
# point; so what is on its way to the terminal is lost as on a path that is black.
BLACK, DOWN = "black both ways", "link down at the gateway"


@dataclass(frozen=True, slots=True)
class Way:
    """How a transfer gets over it."""

    name: str
    mode: str  # of the gateway
    tuned: bool = False  # `bicast mptcp setup` at both ends
    armed: bool = False  # an agent at the end that sends, with the reflex that the controller has decided
    orphaned: bool = False  # the controller is killed before

    @property
    def is_default(self) -> bool:
        return not self.tuned and not self.armed


WAYS = (
    Way("kernel's default, no bicast", "off"),
    Way("kernel's default", "bicast"),
    Way("mptcp setup", "bicast", tuned=True),
    Way("agent's reflex", "bicast", armed=True),
    Way("mptcp setup, agent's reflex", "bicast", tuned=True, armed=True),
    Way("the same, controller killed", "bicast", tuned=True, armed=True, orphaned=True),
)


@dataclass(frozen=True, slots=True)
class Task:
    """One transfer, and one death."""

    fault: str
    direction: str
    way: Way
    number: int  # from 1


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/failover are named so
    rounds: int
    ways: tuple[Way, ...] = WAYS
    faults: tuple[str, ...] = (BLACK, DOWN)
    directions: tuple[str, ...] = (DOWNLOAD, UPLOAD)

    @property
    def tasks(self) -> Iterator[Task]:
        """Everything once before anything is repeated, so that what the machine does beside it hits all alike."""
        for number in range(1, self.rounds + 1):
            for fault, direction, way in product(self.faults, self.directions, self.ways):
                yield Task(fault, direction, way, number)


QUICK = Plan("quick", 1)
FULL = Plan("full", 10)
