# SPDX-License-Identifier: Apache-2.0
"""The controller's own settings in gateway.yaml: listeners, TLS, agents and the state file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: str
    key: str
    ca: str


@dataclass(frozen=True, slots=True)
class AgentService:
    """Where agents are served (`listen`) and enrolled (`join`), and where is kept who they are."""

    listen: Endpoint
    join: Endpoint
    directory: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the controller listens and what it keeps."""

    openflow: Endpoint
    tls: Tls | None
    api: Endpoint
    token_file: str | None
    state_file: str
    agents: AgentService | None = None  # None: there are none
