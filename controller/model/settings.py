# SPDX-License-Identifier: Apache-2.0
"""The controller's own settings in gateway.yaml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class LocalSocket:
    """A Unix socket. Its directory's permissions decide who may listen there."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class MutualTls(Tls):
    """TLS whose peers need a certificate of the authority `ca`."""

    ca: str


@dataclass(frozen=True, slots=True)
class AgentService:
    """The listeners that serve (`listen`) and enrol (`join`) agents, and their identities' directory."""

    listen: Endpoint
    join: Endpoint
    directory: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The controller's listeners and files."""

    openflow: Endpoint | LocalSocket
    tls: MutualTls | None
    api: Endpoint
    token_file: str | None
    state_file: str
    agents: AgentService | None = None  # None: not served
    reader_token_file: str | None = None  # of callers that may only read; None: there are none
    api_tls: Tls | None = None  # None: plain HTTP, on loopback only

    @property
    def unproven(self) -> str | None:
        """Return a sentence if switches cannot tell the controller from another local process."""
        if isinstance(self.openflow, LocalSocket) or self.tls is not None:
            return None
        return (
            f"controller.openflow.listen: plain TCP at {self.openflow} does not authenticate the controller: while "
            "it is stopped, any local user may listen there and replace all flows; omit `listen`, or add `tls`"
        )
