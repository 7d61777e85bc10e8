# SPDX-License-Identifier: Apache-2.0
"""Who switches, how often, and what the sender may queue meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.laboratories.two_paths import DEFAULT_QUEUE, SHORT_QUEUE

QUEUES = {"128 KiB": SHORT_QUEUE, "4 MiB": DEFAULT_QUEUE}  # what the sender may keep, by name


@dataclass(frozen=True, slots=True)
class Hand:
    """Who switches. `role` is of the agent that the controller orders, if it is the controller."""

    name: str
    role: str | None
    lte_backup: bool  # as the client begins: who serves cannot clear a client's flag

    @property
    def by_client(self) -> bool:
        return self.role != "relay"


HANDS = (
    Hand("bicast mptcp switch, at the client", None, True),
    Hand("bicast switch, agent at the client", "terminal", True),
    Hand("bicast switch, agent at the server", "relay", False),
)


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/switching are named so
    switches: int
    rounds: int
    hands: tuple[Hand, ...] = HANDS
    queues: tuple[str, ...] = tuple(QUEUES)


QUICK = Plan("quick", 20, 1)
FULL = Plan("full", 20, 5)
