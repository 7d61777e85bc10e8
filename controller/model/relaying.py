# SPDX-License-Identifier: Apache-2.0
"""Relaying: a terminal's TCP leaves the bridge for the host, which proxies it.

    terminal ── bridge ── port ═ host ═ a port for each uplink ── bridge ── uplinks ── relays

The agent makes each port as one end of a pair of devices. The host has an address for each relayed terminal in the
relaying network of each uplink. The bridge treats these as addresses of the terminal: its mode, active uplink and
classes apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.model.traffic import Family, Interface, Network

RELAYING = "relay/"  # a relaying network's name begins with it, and no other's can
HOST_END = "-h"  # the name of the host's end of a pair: the port's, and this
HOST_MAC = "02:62:69:63:61:73"  # of the host's end of every pair: each is a link of its own


class Fallback(StrEnum):
    """What becomes of a connection that cannot be relayed."""

    DIRECT = "direct"
    BLOCK = "block"


class Choosing(StrEnum):
    """By what it is chosen which relay a connection goes by."""

    NEAREST = "nearest"  # always by one, that which is reached fastest
    PING = "ping"
    TRACEROUTE = "traceroute"
    PREDICTED = "predicted"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class RelayingUplink:
    name: str
    port: str
    gateways: tuple[Interface, ...]  # the bridge's, one a family at most
    bandwidth_bps: int | None = None  # that comes to the site by it; None: as it is measured, if it is

    @property
    def subnet(self) -> str:
        return f"{RELAYING}{self.name}"


@dataclass(frozen=True, slots=True)
class RelayConfig:
    port: str
    uplinks: tuple[RelayingUplink, ...]  # all of the site's, in its order
    fallback: Fallback
    choose: Choosing
    excepted: tuple[Network, ...]  # what is written, and those of the other end: TCP that goes there is left alone

    @property
    def bandwidth_bps(self) -> int | None:
        """What the fastest uplink brings; None: of one at least that is not written."""
        written = [each.bandwidth_bps for each in self.uplinks if each.bandwidth_bps is not None]
        return max(written) if len(written) == len(self.uplinks) else None

    @property
    def families(self) -> tuple[Family, ...]:
        """Those that are taken."""
        return tuple(Family.of(own) for own in self.uplinks[0].gateways)
