"""What people may ask about agents, and the ways in which it can be refused. No word of HTTP or gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from controller.wishes import Answer, Impossible


@dataclass(frozen=True, slots=True)
class Invited:
    """`token` is good once. `join` is where the agent brings it; without a host it is any address of the controller."""

    name: str
    token: str
    until: float
    join: str


@dataclass(frozen=True, slots=True)
class EnrolledView:
    """Times are Unix seconds. None: there is no such thing."""

    name: str
    peer: str | None  # of the stream that is served
    certificate_until: float | None
    revoked_at: float | None
    token_until: float | None


class UnknownAgent(Exception):
    """The sentence names the agent and those that there are."""


class Enroller(Protocol):
    """A name that no agent may have, and a ledger that cannot be kept, are Impossible."""

    def invite(self, name: str) -> Invited: ...

    def revoke(self, name: str) -> Answer: ...

    def enrolled(self) -> tuple[EnrolledView, ...]: ...

    def refusals(self) -> Mapping[str, int]:
        """How many, by the reason."""
        ...


class NoAgents:
    """The Enroller of a controller that serves none."""

    def invite(self, name: str) -> Invited:
        raise _off()

    def revoke(self, name: str) -> Answer:
        raise _off()

    def enrolled(self) -> tuple[EnrolledView, ...]:
        return ()

    def refusals(self) -> Mapping[str, int]:
        return {}


def _off() -> Impossible:
    return Impossible(
        "this controller serves no agents: write `agents: {}` under `controller:` in gateway.yaml, and start it again"
    )
