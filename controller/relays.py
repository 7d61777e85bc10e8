"""Relays, as people wish for them. They are not in gateway.yaml: they come and go while everything runs, and what is
wished is kept in the state file (store.py)."""

from __future__ import annotations

from dataclasses import dataclass

from controller.traffic import Address

MOST_RELAYS = 64  # of a gateway, as api/agent.proto has it
MOST_RANGES = 64  # of ports
ONWARD_PORTS = range(8700, 8700 + MOST_RELAYS)  # TCP, at each relay: by which it is gone on to another one, by number
PREFIXES = {4: 24, 6: 48}  # what is near each other in the Internet, by IP version


@dataclass(frozen=True, slots=True)
class PortRange:
    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


WEB = (PortRange(80, 80), PortRange(443, 443))


@dataclass(frozen=True, slots=True)
class WishedRelay:
    """Its name is that of the agent which is to be one."""

    address: Address  # at which gateways reach it
    port: int  # TCP
    allowed: tuple[PortRange, ...] = WEB  # of servers
    congestion: str | None = None  # what it sends with; None: as its kernel likes
    draining: bool = False  # nothing new
    number: int = 0  # of its own, as long as it is a relay

    @property
    def onward_port(self) -> int:
        """At other relays: what comes there goes on to this one."""
        return ONWARD_PORTS[self.number]
