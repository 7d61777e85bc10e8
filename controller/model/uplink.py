# SPDX-License-Identifier: Apache-2.0
"""An uplink in gateway.yaml: its port, next hops and tunnel, and the limits of its copies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.model.traffic import Address, Family, Interface


class UplinkKind(StrEnum):
    ETHERNET = "ethernet"
    TUNNEL = "tunnel"  # VXLAN, to the site at the other end


@dataclass(frozen=True, slots=True)
class NextHop:
    address: Address
    mac: str | None  # None: learned


@dataclass(frozen=True, slots=True)
class Tunnel:
    """One end. That which knows the other's outer address starts; that one takes who proves to be it."""

    device: str | None  # by which it leaves; None: as the host's routes say
    remote: Address | None  # None: learned
    udp_port: int  # of both ends
    vni: int  # of both ends, and of no other tunnel of this file


@dataclass(frozen=True, slots=True)
class Limits:
    """How many bytes copies may use of one uplink; None: no such limit."""

    budget_bytes_per_day: int | None
    max_share: float | None  # from 0 to 1: of all that the site sends, copies by this uplink are so much at most


UNLIMITED = Limits(None, None)


@dataclass(frozen=True, slots=True)
class Measure:
    """Addresses of the two ends' hosts whose packets take an uplink, where its port does not tell."""

    local: Address
    remote: Address


@dataclass(frozen=True, slots=True)
class Uplink:
    name: str
    port: str
    mac: str | None  # None: the port's own
    addresses: tuple[Interface, ...]
    next_hops: tuple[NextHop, ...]
    tunnel: Tunnel | None = None  # its port is then a device that the site's agent makes
    limits: Limits = UNLIMITED
    measure: Measure | None = None  # of kind ethernet
    reach: tuple[Address, ...] = ()  # beyond its next hop, in families of its own: they answer echo requests

    @property
    def outer_bytes(self) -> int:
        """What a tunnel puts around each frame: headers of IP, UDP and VXLAN. Those of IPv6 where it is not known."""
        if self.tunnel is None:
            return 0
        over_ipv4 = self.tunnel.remote is not None and Family.of(self.tunnel.remote) is Family.IPV4
        return (20 if over_ipv4 else 40) + 8 + 8

    @property
    def kind(self) -> UplinkKind:
        return UplinkKind.TUNNEL if self.tunnel else UplinkKind.ETHERNET

    def next_hop(self, family: Family) -> NextHop | None:
        return next((hop for hop in self.next_hops if Family.of(hop.address) is family), None)

    def address(self, family: Family) -> Interface | None:
        return next((own for own in self.addresses if Family.of(own) is family), None)
