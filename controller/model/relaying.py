# SPDX-License-Identifier: Apache-2.0
"""Relaying: a terminal's TCP leaves the bridge for the host, which proxies it.

    terminal ── bridge ── port ═ host ═ a port for each uplink ── bridge ── uplinks ── relays

The agent makes each port as one end of a pair of devices. The host has an address for each relayed terminal in each
uplink's relaying network. To the bridge these are the terminal's: mode, active uplink and classes apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.model.traffic import Family, Interface, Network

RELAYING = "relay/"  # reserved prefix of relaying networks' names
HOST_END = "-h"  # suffix of the host's end of a pair
HOST_MAC = "02:62:69:63:61:73"  # the host's end of every pair; each pair is a separate link
BRIDGE_MAC = "02:62:69:63:61:72"  # the bridge's end of a pair to a LAN


class Fallback(StrEnum):
    """The fate of a connection that cannot be relayed."""

    DIRECT = "direct"
    BLOCK = "block"


class Choosing(StrEnum):
    """The rule that chooses a connection's relay."""

    NEAREST = "nearest"  # shortest round trip, never direct
    PING = "ping"
    TRACEROUTE = "traceroute"
    PREDICTED = "predicted"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class RelayingUplink:
    name: str
    port: str
    gateways: tuple[Interface, ...]  # the bridge's, at most one per family
    bandwidth_bps: int | None = None  # downlink to the site; None: measured, or unknown

    @property
    def subnet(self) -> str:
        return f"{RELAYING}{self.name}"


@dataclass(frozen=True, slots=True)
class RelayConfig:
    port: str
    uplinks: tuple[RelayingUplink, ...]  # all of the site, in its order
    fallback: Fallback
    choose: Choosing
    excepted: tuple[Network, ...]  # configured networks and the peer site's: TCP to them is not relayed

    @property
    def bandwidth_bps(self) -> int | None:
        """Return the fastest uplink's bandwidth. None: gateway.yaml lacks one uplink's."""
        written = [each.bandwidth_bps for each in self.uplinks if each.bandwidth_bps is not None]
        return max(written) if len(written) == len(self.uplinks) else None

    @property
    def families(self) -> tuple[Family, ...]:
        return tuple(Family.of(own) for own in self.uplinks[0].gateways)
