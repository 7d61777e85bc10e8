# SPDX-License-Identifier: Apache-2.0
"""Enrolment: the role and terminal of a token, and requests about agents.

| the name is                                            | its role |
|---|---|
| a terminal of gateway.yaml                             | terminal |
| a site of gateway.yaml                                 | gateway  |
| in `servers` of gateway.yaml, or a relay (`relay add`) | relay    |

`enroll NAME --role` gives other names a role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from controller.model.config import Config
from controller.protocol.reports import Role
from controller.protocol.requests import Impossible, OverrideResult

PREFIX = "urn:bicast:agent:"
TUNNEL_KEYS = 8  # of a gateway: as many as a site can have tunnels
TUNNEL_KEY_BYTES = 32

Vouched = Mapping[str, "Credential"]  # by agent
Bind = Callable[[str, Role | None, str | None], "Binding"]  # name, requested role and terminal; may raise Impossible


@dataclass(frozen=True, slots=True)
class Credential:
    """An agent's valid certificate."""

    role: Role
    key_sha256: bytes  # SubjectPublicKeyInfo, DER; a renewed certificate has the same key
    tunnel_keys: tuple[
        bytes, ...
    ] = ()  # of a gateway: public keys by a tunnel's number at the site; empty: unknown yet


@dataclass(frozen=True, slots=True)
class Binding:
    role: Role
    terminal: str | None = None  # role terminal: the one that the agent reports for

    @property
    def uri(self) -> str:
        return PREFIX + self.role.value + (f":{self.terminal}" if self.terminal is not None else "")

    def __str__(self) -> str:
        return self.role.value + (f" {self.terminal}" if self.terminal is not None else "")


def parsed(uri: str) -> Binding | None:
    """Return the binding of a certificate's URI, or None for another kind of URI."""
    if not uri.startswith(PREFIX):
        return None
    role, colon, terminal = uri.removeprefix(PREFIX).partition(":")
    if role not in list(Role) or bool(colon) is not (role == Role.TERMINAL):
        return None
    return Binding(Role(role), terminal if colon else None)


def of_agent(name: str, role: Role, terminal: str | None = None) -> Binding:
    """Return a binding, by default to the terminal of the agent's own name."""
    return Binding(role, terminal or name) if role is Role.TERMINAL else Binding(role)


def bound(config: Config, relays: Collection[str], name: str, role: Role | None, terminal: str | None) -> Binding:
    """Return a new token's binding for the requested role and terminal, or raise Impossible."""
    known = dict(_roles(config, relays, name))
    if terminal is not None:
        _check_terminal(config, name, role, terminal)
        role = Role.TERMINAL
    if role is None and len(known) == 1:
        (role,) = known
    if role is None:
        described = ", and ".join(known.values())
        what = f"{name} is {described}" if known else f"{name} is not a known terminal, site, server or relay"
        raise Impossible(f"{what}: give its agent's role, with `--role terminal`, `gateway` or `relay`")
    if known and role not in known:
        raise Impossible(
            f"{name} is {', and '.join(known.values())}: its agent has the role {' or '.join(known)}, not "
            f"{role}; use another name for another role"
        )
    return of_agent(name, role, terminal)


def _roles(config: Config, relays: Collection[str], name: str) -> list[tuple[Role, str]]:
    found = []
    if any(terminal.name == name for site in config.sites for terminal in site.terminals):
        found.append((Role.TERMINAL, "a terminal of gateway.yaml"))
    if any(site.name == name for site in config.sites):
        found.append((Role.GATEWAY, "a site of gateway.yaml"))
    if name in config.servers:
        found.append((Role.RELAY, "a server of gateway.yaml"))
    elif name in relays:
        found.append((Role.RELAY, "a relay (`relay add`)"))
    return found


def _check_terminal(config: Config, name: str, role: Role | None, terminal: str) -> None:
    names = {each.name for site in config.sites for each in site.terminals}
    if role not in (None, Role.TERMINAL):
        raise Impossible(f"an agent of role {role} does not speak for a terminal: omit `--terminal`")
    if terminal not in names:
        raise Impossible(f"gateway.yaml has no terminal {terminal!r}; it has: {', '.join(sorted(names)) or 'none'}")
    if name in names and terminal != name:
        raise Impossible(f"{name} is a terminal of gateway.yaml, and its agent speaks for it, not for {terminal}")


NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")  # of an agent
CONTROLLER = "bicast-controller"  # TLS name for agents, independent of addresses


@dataclass(frozen=True, slots=True)
class Invited:
    """An invitation of an agent. `token` is valid once.

    `join` is the endpoint to join at; without a host, any address of the controller. `terminal` is set for the role
    terminal only.
    """

    name: str
    token: str
    until: float
    join: str
    role: Role
    terminal: str | None


class EnrolmentState(StrEnum):
    INVITED = "invited"  # it has a token and never joined
    AWAY = "away"
    CONNECTED = "connected"
    REVOKED = "revoked"  # and not joined again


@dataclass(frozen=True, slots=True)
class EnrolledView:
    """The enrolment of one agent. Times are Unix seconds; null: none.

    `peer` is the address of the current stream. `tried_at` and `tried_from` are the last attempt, since the
    controller's start, with an invalid certificate of this name: a revoked or replaced one. `role` and `terminal` come
    from the certificate, or from the token.
    """

    name: str
    standing: EnrolmentState
    peer: str | None
    certificate_until: float | None
    revoked_at: float | None
    token_until: float | None
    tried_at: float | None
    tried_from: str | None
    role: Role | None = None
    terminal: str | None = None


class UnknownAgent(Exception):
    """An unknown agent. The message lists the known ones."""


class Enroller(Protocol):
    """Enrolment of agents. A bad name or an unwritable ledger raises Impossible."""

    def invite(self, name: str, role: Role | None = None, terminal: str | None = None) -> Invited: ...

    def withdraw(self, name: str) -> OverrideResult:
        """Make an unused token invalid."""

    def revoke(self, name: str) -> OverrideResult: ...

    def enrolled(self) -> tuple[EnrolledView, ...]: ...

    def refusals(self) -> Mapping[str, int]: ...


class NoAgents:
    """The Enroller without agents. It raises, because an empty list would look enrollable."""

    def invite(self, name: str, role: Role | None = None, terminal: str | None = None) -> Invited:
        raise _off()

    def withdraw(self, name: str) -> OverrideResult:
        raise _off()

    def revoke(self, name: str) -> OverrideResult:
        raise _off()

    def enrolled(self) -> tuple[EnrolledView, ...]:
        raise _off()

    def refusals(self) -> Mapping[str, int]:
        return {}


def _off() -> Impossible:
    return Impossible(
        "this controller has no listener for agents: write `agents: {}` under `controller:` in gateway.yaml, "
        "and restart the controller"
    )
