# SPDX-License-Identifier: Apache-2.0
"""Messages between the core and the switches, as values: events from a switch, and orders to it.

`session` numbers one connection of one switch, so that a late message of an old connection is recognized. `ticket`
numbers one order of the core and comes back with its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.model.known import Port
from controller.model.traffic import Address
from controller.program.diff import Change
from controller.program.program import Installed, PortCounters

# Events


@dataclass(frozen=True, slots=True)
class SwitchOpened:
    """Hello is done and the ports are known; nothing was asked of it yet."""

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
    """The switch has answered the barrier behind the last change of this ticket."""

    session: int
    ticket: int


@dataclass(frozen=True, slots=True)
class SwitchRefused:
    """`change` is None when the switch complained of a message that no change stands for."""

    session: int
    ticket: int | None
    change: Change | None
    reason: str


@dataclass(frozen=True, slots=True)
class FlowsLost:
    """Flows of ours are gone that we did not delete; said once, until the switch is asked to be read."""

    session: int


@dataclass(frozen=True, slots=True)
class PortSeen:
    session: int
    name: str
    port: Port | None  # None: it is gone


@dataclass(frozen=True, slots=True)
class NeighbourSeen:
    """An ARP or neighbour discovery packet told that `mac` has `address`."""

    session: int
    in_port: int
    address: Address
    mac: str


@dataclass(frozen=True, slots=True)
class Solicited:
    """Somebody asks for the MAC of `target` (IPv6; ARP is answered by flows)."""

    session: int
    in_port: int
    target: Address
    asker: Address
    asker_mac: str


@dataclass(frozen=True, slots=True)
class PortsCounted:
    session: int
    counters: Mapping[int, PortCounters]  # by the port's number


@dataclass(frozen=True, slots=True)
class EchoAnswered:
    """An address beyond a next hop has answered an echo request of ours."""

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
    | EchoAnswered
)

# Orders


@dataclass(frozen=True, slots=True)
class Read:
    session: int
    ticket: int


@dataclass(frozen=True, slots=True)
class Apply:
    """The changes in this order; a barrier wherever the kind of change changes, and one behind the last."""

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
    """Answer a neighbour solicitation: `target` is at `mac`. Proxied: it is a terminal's address, not our own."""

    session: int
    out_port: int
    mac: str
    target: Address
    asker: Address
    asker_mac: str
    proxied: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """Read the counters of all ports, and nothing else."""

    session: int


@dataclass(frozen=True, slots=True)
class Echo:
    """Send an echo request out of a port, to an address beyond the next hop with this MAC."""

    session: int
    out_port: int
    source_mac: str
    hop_mac: str
    source: Address
    target: Address
    number: int  # 16 bits


@dataclass(frozen=True, slots=True)
class Close:
    session: int
    reason: str


Effect = Read | Apply | Ask | Advertise | Count | Echo | Close
