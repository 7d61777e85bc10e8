"""What people may ask about agents, and the ways in which it can be refused. No word of HTTP or gRPC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from controller.reports import Role
from controller.wishes import Answer, Impossible

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")  # an agent's
CONTROLLER = "bicast-controller"  # who the controller is to them, wherever it is reached: addresses change


@dataclass(frozen=True, slots=True)
class Invited:
    """`token` is good once. `join` is where the agent brings it; without a host it is any address of the controller.
    `role` is what the agent will be, and `terminal` the one that it speaks for, where it is a terminal's."""

    name: str
    token: str
    until: float
    join: str
    role: Role
    terminal: str | None


class Standing(StrEnum):
    INVITED = "invited"  # it may join with its token, and never has
    AWAY = "away"  # it has joined, and is not connected
    CONNECTED = "connected"
    REVOKED = "revoked"  # and not joined again since


@dataclass(frozen=True, slots=True)
class EnrolledView:
    """Times are Unix seconds; null: there is no such thing. `peer` is that of the stream which is served. `tried_at`
    and `tried_from` tell who last came, since the controller was started, with a certificate of this name that no
    longer counts: it was revoked, or there is a newer one. `role` and `terminal` are what its certificate, or its
    token, says that it is."""

    name: str
    standing: Standing
    peer: str | None
    certificate_until: float | None
    revoked_at: float | None
    token_until: float | None
    tried_at: float | None
    tried_from: str | None
    role: Role | None = None
    terminal: str | None = None


class UnknownAgent(Exception):
    """The sentence names the agent and those that there are."""


class Enroller(Protocol):
    """A name that no agent may have, and a ledger that cannot be kept, are Impossible."""

    def invite(self, name: str, role: Role | None = None, terminal: str | None = None) -> Invited: ...

    def revoke(self, name: str) -> Answer: ...

    def enrolled(self) -> tuple[EnrolledView, ...]: ...

    def refusals(self) -> Mapping[str, int]:
        """How many, by the reason."""
        ...


class NoAgents:
    """The Enroller of a controller that serves none. None enrolled would read as if somebody could be."""

    def invite(self, name: str, role: Role | None = None, terminal: str | None = None) -> Invited:
        raise _off()

    def revoke(self, name: str) -> Answer:
        raise _off()

    def enrolled(self) -> tuple[EnrolledView, ...]:
        raise _off()

    def refusals(self) -> Mapping[str, int]:
        return {}


def _off() -> Impossible:
    return Impossible(
        "this controller serves no agents: write `agents: {}` under `controller:` in gateway.yaml, and start it again"
    )
