# SPDX-License-Identifier: Apache-2.0
"""Traffic: families, protocols and classes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network


class Family(Enum):
    """The differences between address families."""

    IPV4 = (
        4,
        0x0800,
        "ipv4_src",
        "ipv4_dst",
        1,
        "icmpv4_type",
        8,
        0,
        ("224.0.0.0/4", "240.0.0.0/4", "127.0.0.0/8", "0.0.0.0/8", "169.254.0.0/16"),
    )
    IPV6 = (
        6,
        0x86DD,
        "ipv6_src",
        "ipv6_dst",
        58,
        "icmpv6_type",
        128,
        129,
        ("ff00::/8", "fe80::/10", "::/96", "::ffff:0:0/96"),
    )

    def __init__(
        self,
        version: int,
        eth_type: int,
        source: str,
        destination: str,
        icmp_protocol: int,
        icmp_type: str,
        echo_request: int,
        echo_reply: int,
        never_routed: tuple[str, ...],
    ) -> None:
        self.version = version
        self.eth_type = eth_type
        self.source = source
        self.destination = destination
        self.icmp_protocol = icmp_protocol
        self.icmp_type = icmp_type
        self.echo_request = echo_request
        self.echo_reply = echo_reply
        self.never_routed = never_routed

    @staticmethod
    def of(address: Address | Interface | Network) -> Family:
        return Family.IPV4 if address.version == 4 else Family.IPV6


DNS_PORT = 53
ASKED_FROM_PORT = 0x6263  # "bc": of our DNS queries to addresses beyond next hops


class Protocol(Enum):
    """A protocol that classes distinguish."""

    TCP = ("tcp", 6, 6)
    UDP = ("udp", 17, 17)
    ICMP = ("icmp", 1, 58)
    SCTP = ("sctp", 132, 132)

    def __init__(self, label: str, ipv4_number: int, ipv6_number: int) -> None:
        self.label = label
        self._numbers = {Family.IPV4: ipv4_number, Family.IPV6: ipv6_number}

    def number(self, family: Family) -> int:
        return self._numbers[family]


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """A set of traffic. A packet must match one value of each kind that has values.

    A class without values takes the rest. Ports and networks are the other end's: destinations of sent packets, sources
    of received ones.
    """

    name: str
    protocols: tuple[Protocol, ...] = ()
    ports: tuple[range, ...] = ()
    dscp: tuple[int, ...] = ()
    networks: tuple[Network, ...] = ()


REST = TrafficClass("rest")
