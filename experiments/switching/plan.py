# SPDX-License-Identifier: Apache-2.0
"""Plan actors, switches, and the sender's buffer."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.laboratories.two_paths import DEFAULT_QUEUE, SHORT_QUEUE

QUEUES = {"128 KiB": SHORT_QUEUE, "4 MiB": DEFAULT_QUEUE}  # the sender's buffer, by name


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor; `role` is its agent's, if the controller orders it."""

    name: str
    role: str | None
    lte_backup: bool  # at the start: a server cannot clear a client's flag

    @property
    def by_client(self) -> bool:
        return self.role != "relay"


ACTORS = (
    Actor("bicast mptcp switch, at the client", None, True),
    Actor("bicast switch, agent at the client", "terminal", True),
    Actor("bicast switch, agent at the server", "relay", False),
)


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    switches: int
    rounds: int
    actors: tuple[Actor, ...] = ACTORS
    queues: tuple[str, ...] = tuple(QUEUES)


QUICK = Plan("quick", 20, 1)
FULL = Plan("full", 20, 5)
