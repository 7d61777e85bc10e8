# SPDX-License-Identifier: Apache-2.0
"""An uplink in gateway.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.model.traffic import Address, Family, Interface


class UplinkKind(StrEnum):
    ETHERNET = "ethernet"
    TUNNEL = "tunnel"  # encrypted, to the peer site
    HOST = "host"  # the host routes it on, behind its own address


MOST_OF_A_SITE = 8  # tunnels


@dataclass(frozen=True, slots=True)
class NextHop:
    address: Address
    mac: str | None  # None: learned


@dataclass(frozen=True, slots=True)
class Tunnel:
    """One end of a tunnel. The end that knows the other's address starts; the other authenticates it."""

    device: str | None  # None: by the host's routes
    remote: Address | None  # None: learned
    udp_port: int  # both ends'; 0: the default for its number
    vni: int  # both ends', unique in this file
    clear: bool = False  # not encrypted, for measurements

    @property
    def number(self) -> int:
        """Return its number at its site, from 0."""
        return (self.vni - 1) % MOST_OF_A_SITE


class Period(StrEnum):
    """Calendar time that a budget is for."""

    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes that an uplink may carry, both ways together, before its copies end."""

    bytes: int
    period: Period

    @property
    def bytes_per_day(self) -> int:
        return self.bytes if self.period is Period.DAY else self.bytes // 30

    def __str__(self) -> str:
        unit, size = next((unit, size) for unit, size in UNITS.items() if self.bytes >= size)
        return f"{self.bytes / size:.12g}{unit}/{self.period}"


UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6}  # providers count in decimal units


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of copies on one uplink. None: no limit."""

    budget: Budget | None
    max_share: float | None  # 0 to 1, copies' part of all that the site sends


UNLIMITED = Limits(None, None)


@dataclass(frozen=True, slots=True)
class Measure:
    """Addresses of two hosts whose probes take this uplink, if its port does not determine it."""

    local: Address
    remote: Address


@dataclass(frozen=True, slots=True)
class Uplink:
    name: str
    port: str
    mac: str | None  # None: the port's
    addresses: tuple[Interface, ...]
    next_hops: tuple[NextHop, ...]
    tunnel: Tunnel | None = None  # the site's agent creates the port's device
    limits: Limits = UNLIMITED
    measure: Measure | None = None  # only kind ethernet
    reach: tuple[Address, ...] = ()  # beyond the next hop, answer echo requests, in the uplink's families
    nat_device: str | None = None  # kind host: the host's interface; `bicast bridge` makes the port and the next hops

    @property
    def outer_bytes(self) -> int:
        """Return the tunnel's overhead per frame. An unknown family counts as IPv6, and padding does not count."""
        if self.tunnel is None:
            return 0
        over_ipv4 = self.tunnel.remote is not None and Family.of(self.tunnel.remote) is Family.IPV4
        return (20 if over_ipv4 else 40) + 8 + 32 + 40 + 8 + 8  # IP, UDP, WireGuard; inside it IPv6, UDP, VXLAN

    @property
    def kind(self) -> UplinkKind:
        if self.tunnel:
            return UplinkKind.TUNNEL
        return UplinkKind.HOST if self.nat_device else UplinkKind.ETHERNET

    @property
    def device(self) -> str | None:
        """Return the host's interface below this uplink; None: its own port, or by the host's routes."""
        return self.tunnel.device if self.tunnel else self.nat_device

    def next_hop(self, family: Family) -> NextHop | None:
        return next((hop for hop in self.next_hops if Family.of(hop.address) is family), None)

    def address(self, family: Family) -> Interface | None:
        return next((own for own in self.addresses if Family.of(own) is family), None)
