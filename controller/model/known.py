# SPDX-License-Identifier: Apache-2.0
"""Overrides, kept decisions and observations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from controller.model.config import Mode, Site, Terminal, TerminalAddress
from controller.model.traffic import Address

# Relays are overrides: in the state file, not in gateway.yaml.

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


T = TypeVar("T")


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
class Used:
    """The bytes that an uplink has carried in the period of its budget.

    Each counter counts the whole link, and some see more of it than others or are away for a time: the largest holds.
    """

    period: str  # 2026-11-22, or 2026-11
    by_counter: Mapping[str, int] = field(default_factory=dict)  # switches, and the interface below a tunnel
    used_up: int | None = None  # budget that is used up until the period ends; a larger budget is not
    read: Mapping[str, int] = field(default_factory=dict)  # each counter as last read

    @property
    def bytes(self) -> int:
        return max(self.by_counter.values(), default=0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Overrides and decisions of policies, by terminal unless noted. Overrides come first."""

    modes: Mapping[str, Mode] = field(default_factory=dict)  # in_class() makes the key of a named class
    active: Mapping[str, str] = field(default_factory=dict)
    decided: Mapping[str, str] = field(default_factory=dict)  # uplinks chosen by policies
    once: frozenset[str] = frozenset()  # sites that eliminate duplicates; their peers copy `bicast_once`
    copies: Mapping[str, bool] = field(default_factory=dict)  # in mode auto; a missing one means copies
    used: Mapping[str, Used] = field(default_factory=dict)  # by home and uplink, for uplinks with limits
    barred: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by home: uplinks barred from copies
    relays: Mapping[str, RelayOverride] = field(default_factory=dict)  # by name

    def mode(self, terminal: Terminal) -> Mode:
        return self.modes.get(terminal.name, terminal.mode)

    def mode_of(self, terminal: Terminal, traffic: str) -> Mode:
        wished = self.modes.get(in_class(terminal.name, traffic))
        return wished or dict(terminal.modes).get(traffic) or self.mode(terminal)

    def acting(self, site: Site, terminal: Terminal) -> Mode:
        """Return the mode in force. Auto is resolved; bicast becomes single if no uplink may carry copies."""
        return self._acting(site, terminal, self.mode(terminal))

    def acting_of(self, site: Site, terminal: Terminal, traffic: str) -> Mode:
        return self._acting(site, terminal, self.mode_of(terminal, traffic))

    def _acting(self, site: Site, terminal: Terminal, mode: Mode) -> Mode:
        if mode is Mode.AUTO:
            mode = Mode.BICAST if self.copies.get(terminal.name, True) else Mode.SINGLE
        return Mode.SINGLE if mode is Mode.BICAST and not self.may_copy(site, terminal) else mode

    def keeps_apart(self, site: Site, terminal: Terminal) -> bool:
        """Return whether relayed subflows keep their own uplinks: a NAT there may know no other address."""
        return terminal.relayed and site.other_end is None and self.mode(terminal) is Mode.SINGLE

    def may_copy(self, site: Site, terminal: Terminal) -> bool:
        barred = self.barred.get(site.home)
        if not barred:
            return True
        active = self.active_uplink(site, terminal)
        return any(uplink.name not in barred for uplink in site.uplinks if uplink.name != active)

    def active_uplink(self, site: Site, terminal: Terminal) -> str:
        """Return the override, the decision or the default. An override waits for its uplink to be in the file."""
        return self.standing(site, terminal) or terminal.default_uplink

    def wished(self, site: Site, terminal: Terminal) -> str | None:
        return _there(site, self.active.get(terminal.name))

    def standing(self, site: Site, terminal: Terminal) -> str | None:
        """Return the uplink that a person or a policy has chosen, or None."""
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
    """The ports of one switch by name, and the MACs behind them."""

    ports: Mapping[str, Port] = field(default_factory=dict)
    macs: Mapping[Neighbour, str] = field(default_factory=dict)

    def port_name(self, number: int) -> str:
        """Return "" if the port is gone."""
        return next((name for name, port in self.ports.items() if port.number == number), "")

    def mac_of(self, place: TerminalAddress) -> str | None:
        """Return the MAC that gateway.yaml has, or the learned one."""
        return place.mac or (self.macs.get((place.port, place.host)) if place.host else None)


@dataclass(frozen=True, slots=True)
class CopyRateLimit:
    """The rate limit that keeps a budget until the next reading."""

    kbps: int  # 1000 bit/s
    burst_kbits: int


@dataclass(frozen=True, slots=True)
class Known:
    wanted: Wanted = Wanted()
    observed: Observed = Observed()
    screened: frozenset[str] = frozenset()  # no copies arrive at their other end
    rates: Mapping[str, CopyRateLimit] = field(default_factory=dict)  # by uplink with a budget
