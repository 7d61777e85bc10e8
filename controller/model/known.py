# SPDX-License-Identifier: Apache-2.0
"""The state beside the configuration: overrides of people, decisions that are kept, and observations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from controller.model.config import Mode, Site, Terminal
from controller.model.traffic import Address

# Relays are overrides: they are in the state file, not in gateway.yaml.

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
class RelayOverride:
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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    mac: str
    up: bool


Neighbour = tuple[str, Address]  # a port's name and an address behind it: fe80::1 may be on two uplinks


@dataclass(frozen=True, slots=True)
class Counted:
    """Copies by an uplink with limits, as one switch counts up."""

    passed_bytes: int  # where a meter bounds them, since it was last modified
    rate_kbps: int = 0  # that meter's: with every other one it counts anew


@dataclass(frozen=True, slots=True)
class Spent:
    """What copies have used of an uplink with a budget."""

    day: str
    copied_bytes: int = 0
    used_up: int | None = None  # the budget that is, till the day ends; a greater one is not
    counted: Mapping[str, Counted] = field(default_factory=dict)  # when last read, by switch and table


@dataclass(frozen=True, slots=True)
class Wanted:
    """Wishes of people, and below them what policies decided; by terminal name, where nothing else is said."""

    modes: Mapping[str, Mode] = field(default_factory=dict)  # of a class that has a name: by in_class
    active: Mapping[str, str] = field(default_factory=dict)
    decided: Mapping[str, str] = field(default_factory=dict)  # uplinks, too
    once: frozenset[str] = frozenset()  # sites that let one copy of each packet pass: towards them all is copied
    copies: Mapping[str, bool] = field(default_factory=dict)  # decided in mode auto; of whom nothing is: they are had
    spent: Mapping[str, Spent] = field(default_factory=dict)  # by home and uplink, of uplinks with a budget
    barred: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by home: uplinks that may carry no copies now
    relays: Mapping[str, RelayOverride] = field(default_factory=dict)  # by name

    def mode(self, terminal: Terminal) -> Mode:
        return self.modes.get(terminal.name, terminal.mode)

    def mode_of(self, terminal: Terminal, traffic: str) -> Mode:
        """Of a class that has a name: its own, or else the terminal's."""
        wished = self.modes.get(in_class(terminal.name, traffic))
        return wished or dict(terminal.modes).get(traffic) or self.mode(terminal)

    def acting(self, site: Site, terminal: Terminal) -> Mode:
        """What its mode comes to: never auto, and with no copies where nothing may carry them."""
        return self._acting(site, terminal, self.mode(terminal))

    def acting_of(self, site: Site, terminal: Terminal, traffic: str) -> Mode:
        return self._acting(site, terminal, self.mode_of(terminal, traffic))

    def _acting(self, site: Site, terminal: Terminal, mode: Mode) -> Mode:
        if mode is Mode.AUTO:
            mode = Mode.BICAST if self.copies.get(terminal.name, True) else Mode.SINGLE
        return Mode.SINGLE if mode is Mode.BICAST and not self.may_copy(site, terminal) else mode

    def keeps_apart(self, site: Site, terminal: Terminal) -> bool:
        """Whether each subflow of its relayed connections leaves by its own uplink: a NAT there may know no other."""
        return terminal.relayed and site.other_end is None and self.mode(terminal) is Mode.SINGLE

    def may_copy(self, site: Site, terminal: Terminal) -> bool:
        barred = self.barred.get(site.home)
        if not barred:
            return True
        active = self.active_uplink(site, terminal)
        return any(uplink.name not in barred for uplink in site.uplinks if uplink.name != active)

    def active_uplink(self, site: Site, terminal: Terminal) -> str:
        """A wish outlives its uplink: until that is back in the file, what stands below the wish counts."""
        return self.standing(site, terminal) or terminal.default_uplink

    def wished(self, site: Site, terminal: Terminal) -> str | None:
        return _there(site, self.active.get(terminal.name))

    def standing(self, site: Site, terminal: Terminal) -> str | None:
        """What somebody, a person or a policy, has chosen; None: nobody has."""
        return self.wished(site, terminal) or _there(site, self.decided.get(terminal.name))


def in_class(terminal: str, traffic: str) -> str:
    return f"{terminal}/{traffic}"  # no name has a slash


def without(by_name: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in by_name.items() if name not in names}


def _there(site: Site, name: str | None) -> str | None:
    for uplink in site.uplinks:
        if uplink.name == name:
            return name
    return None


@dataclass(frozen=True, slots=True)
class Observed:
    """What one switch showed: its ports by name and the MACs behind them."""

    ports: Mapping[str, Port] = field(default_factory=dict)
    macs: Mapping[Neighbour, str] = field(default_factory=dict)

    def port_name(self, number: int) -> str:
        """Empty: it has gone."""
        return next((name for name, port in self.ports.items() if port.number == number), "")


@dataclass(frozen=True, slots=True)
class CopyRateLimit:
    """To which copies are held, so that no budget is exceeded before it is looked at again."""

    kbps: int  # 1000 bit/s
    burst_kbits: int


@dataclass(frozen=True, slots=True)
class Known:
    wanted: Wanted = Wanted()
    observed: Observed = Observed()
    screened: frozenset[str] = frozenset()  # uplinks that get no copies, as they bring none to the other end
    rates: Mapping[str, CopyRateLimit] = field(default_factory=dict)  # by uplink with a budget
