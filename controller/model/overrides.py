# SPDX-License-Identifier: Apache-2.0
"""The overrides of people, which come before decisions and gateway.yaml.

Relays are overrides: they are in the state file alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from controller.model.config import Mode, Terminal
from controller.model.traffic import Address

MOST_RELAYS = 64  # per gateway (api/agent.proto)
MOST_RANGES = 64  # per relay
ONWARD_PORTS = range(8700, 8700 + MOST_RELAYS)  # at each relay, TCP ports that lead on to another relay, by its number
PREFIXES = {4: 24, 6: 48}  # of a shared relay choice, by IP version


@dataclass(frozen=True, slots=True)
class PortRange:
    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


WEB = (PortRange(80, 80), PortRange(443, 443))


@dataclass(frozen=True, slots=True)
class RelayOverride:
    """A relay that a person added, named like its agent."""

    address: Address  # at which gateways reach it
    port: int  # TCP
    allowed: tuple[PortRange, ...] = WEB  # destinations
    congestion: str | None = None  # None: the kernel's default
    draining: bool = False  # it gets no new connections
    number: int = 0  # unique among relays

    @property
    def onward_port(self) -> int:
        return ONWARD_PORTS[self.number]


@dataclass(frozen=True, slots=True)
class Overrides:
    modes: Mapping[str, Mode] = field(default_factory=dict)  # by terminal, or in_class() of one
    active: Mapping[str, str] = field(default_factory=dict)  # uplinks, by terminal
    relays: Mapping[str, RelayOverride] = field(default_factory=dict)  # by name

    def mode(self, terminal: Terminal) -> Mode:
        return self.modes.get(terminal.name, terminal.mode)

    def mode_of(self, terminal: Terminal, traffic: str) -> Mode:
        wished = self.modes.get(in_class(terminal.name, traffic))
        return wished or dict(terminal.modes).get(traffic) or self.mode(terminal)


def in_class(terminal: str, traffic: str) -> str:
    return f"{terminal}/{traffic}"  # no name has a slash


T = TypeVar("T")


def without(by_name: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in by_name.items() if name not in names}
