# SPDX-License-Identifier: Apache-2.0
"""Messages between the core and the switches.

`session` numbers one connection of one switch, so that late messages of an old connection are recognized. `ticket`
numbers one order and comes back with its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.model.observed import Port
from controller.model.traffic import Address, Protocol
from controller.program.diff import Change
from controller.program.program import Installed, PortCounters

# Events


@dataclass(frozen=True, slots=True)
class SwitchOpened:
    """The handshake is done and the ports are known. No order was sent yet."""

    session: int
    dpid: int
    peer: str
    ports: Mapping[str, Port]


@dataclass(frozen=True, slots=True)
class SwitchClosed:
    session: int


@dataclass(frozen=True, slots=True)
class SwitchRead:
    session: int
    ticket: int
    installed: Installed


@dataclass(frozen=True, slots=True)
class SwitchApplied:
    """The switch has answered the barrier after this ticket's last change."""

    session: int
    ticket: int


@dataclass(frozen=True, slots=True)
class SwitchRefused:
    """The switch refused a message. `change` is None for other messages."""

    session: int
    ticket: int | None
    change: Change | None
    reason: str


@dataclass(frozen=True, slots=True)
class FlowsLost:
    """Our flows vanished without an order. Sent once, until the next Read."""

    session: int


@dataclass(frozen=True, slots=True)
class PortSeen:
    session: int
    name: str
    port: Port | None  # None: gone


@dataclass(frozen=True, slots=True)
class NeighbourSeen:
    """An ARP or neighbour discovery packet showed that `mac` has `address`."""

    session: int
    in_port: int
    address: Address
    mac: str


@dataclass(frozen=True, slots=True)
class Solicited:
    """A host asks for the MAC of `target`. IPv6 only: flows answer ARP."""

    session: int
    in_port: int
    target: Address
    asker: Address
    asker_mac: str


@dataclass(frozen=True, slots=True)
class PortsCounted:
    session: int
    counters: Mapping[int, PortCounters]  # by port number


@dataclass(frozen=True, slots=True)
class FarAnswered:
    """An address beyond a next hop answered an echo request or a DNS query."""

    session: int
    in_port: int
    source: Address
    number: int


SwitchEvent = (
    SwitchOpened
    | SwitchClosed
    | SwitchRead
    | SwitchApplied
    | SwitchRefused
    | FlowsLost
    | PortSeen
    | NeighbourSeen
    | Solicited
    | PortsCounted
    | FarAnswered
)


# Orders


@dataclass(frozen=True, slots=True)
class Read:
    session: int
    ticket: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply the changes in order, with a barrier between kinds and one at the end."""

    session: int
    ticket: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Send an ARP request or neighbour solicitation out of a port."""

    session: int
    out_port: int
    source_mac: str
    source: Address
    target: Address


@dataclass(frozen=True, slots=True)
class Advertise:
    """Answer a neighbour solicitation: `target` is at `mac`. `proxied`: `target` is a terminal's."""

    session: int
    out_port: int
    mac: str
    target: Address
    asker: Address
    asker_mac: str
    proxied: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """Read the counters of all ports only."""

    session: int


@dataclass(frozen=True, slots=True)
class AskFar:
    """Send an echo request or a DNS query to an address beyond the next hop with this MAC."""

    session: int
    out_port: int
    source_mac: str
    hop_mac: str
    source: Address
    target: Address
    number: int  # 16 bits
    protocol: Protocol  # ICMP for an echo request, UDP for a DNS query


@dataclass(frozen=True, slots=True)
class Close:
    session: int
    reason: str


Effect = Read | Apply | Ask | Advertise | Count | AskFar | Close
