# SPDX-License-Identifier: Apache-2.0
"""The ports and neighbours that one switch has reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.model.config import TerminalAddress
from controller.model.traffic import Address


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    mac: str
    up: bool


Neighbour = tuple[str, Address]  # port and address: fe80::1 may be on two uplinks


@dataclass(frozen=True, slots=True)
class CopyCounter:
    """A switch's counter of copies on an uplink with limits."""

    passed_bytes: int  # with a meter: since its last modification
    rate_kbps: int = 0  # of the meter; a new rate resets the counter


@dataclass(frozen=True, slots=True)
class Observed:
    """The ports of one switch by name, and the MACs behind them."""

    ports: Mapping[str, Port] = field(default_factory=dict)
    macs: Mapping[Neighbour, str] = field(default_factory=dict)

    def port_name(self, number: int) -> str:
        """Return "" if the port is gone."""
        return next((name for name, port in self.ports.items() if port.number == number), "")

    def mac_of(self, place: TerminalAddress) -> str | None:
        """Return the MAC that gateway.yaml has, or the learned one."""
        return place.mac or (self.macs.get((place.port, place.host)) if place.host else None)
