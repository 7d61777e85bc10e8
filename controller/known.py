"""What is known beside the configuration: what was wished, and what was seen. Each is replaced only by its own kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.model import Address, Mode, Site, Terminal


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    mac: str
    up: bool


Neighbour = tuple[str, Address]  # a port's name and an address behind it: fe80::1 may be on two uplinks


@dataclass(frozen=True, slots=True)
class Wanted:
    """Wishes of people (and later of policies), by terminal name."""

    modes: Mapping[str, Mode] = field(default_factory=dict)
    active: Mapping[str, str] = field(default_factory=dict)

    def mode(self, terminal: Terminal) -> Mode:
        return self.modes.get(terminal.name, terminal.mode)

    def active_uplink(self, site: Site, terminal: Terminal) -> str:
        """A wish outlives its uplink: until that is back in the file, the default counts."""
        wished = self.active.get(terminal.name)
        there = any(uplink.name == wished for uplink in site.uplinks)
        return wished if wished and there else terminal.default_uplink


@dataclass(frozen=True, slots=True)
class Observed:
    """What one switch showed: its ports by name and the MACs behind them."""

    ports: Mapping[str, Port] = field(default_factory=dict)
    macs: Mapping[Neighbour, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    wanted: Wanted = Wanted()
    observed: Observed = Observed()
