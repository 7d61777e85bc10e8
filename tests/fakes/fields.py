# SPDX-License-Identifier: Apache-2.0
"""OpenFlow's header fields: their prerequisites (1.3.5, section 7.2.3.8) and the form of their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from controller.program.program import Value

MASKED = re.compile(r"(0x[0-9a-f]+)/(0x[0-9a-f]+)")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
Needs = dict[str, tuple[int, ...]]


class IllDefined(Exception):
    """The program has no meaning, or differs between switches. No switch refuses it, but no program may have it."""


class Kind(Enum):
    NUMBER = "number"
    MAC = "MAC address"
    IPV4 = "IPv4 address"
    IPV6 = "IPv6 address"


@dataclass(frozen=True, slots=True)
class Field:
    kind: Kind
    bits: int
    needs: Needs
    settable: bool = True


IPV4: Needs = {"eth_type": (0x0800,)}
IPV6: Needs = {"eth_type": (0x86DD,)}
IP: Needs = {"eth_type": (0x0800, 0x86DD)}
ARP: Needs = {"eth_type": (0x0806,)}
TCP: Needs = IP | {"ip_proto": (6,)}
UDP: Needs = IP | {"ip_proto": (17,)}
SCTP: Needs = IP | {"ip_proto": (132,)}
ICMPV4: Needs = IPV4 | {"ip_proto": (1,)}
ICMPV6: Needs = IPV6 | {"ip_proto": (58,)}

FIELDS: Mapping[str, Field] = {
    "in_port": Field(Kind.NUMBER, 32, {}, settable=False),
    "eth_src": Field(Kind.MAC, 48, {}),
    "eth_dst": Field(Kind.MAC, 48, {}),
    "vlan_vid": Field(Kind.NUMBER, 13, {}, settable=False),
    "eth_type": Field(Kind.NUMBER, 16, {}, settable=False),
    "ip_proto": Field(Kind.NUMBER, 8, IP, settable=False),
    "ip_dscp": Field(Kind.NUMBER, 6, IP, settable=False),
    "nw_ttl": Field(Kind.NUMBER, 8, IP),
    "ipv4_src": Field(Kind.IPV4, 32, IPV4),
    "ipv4_dst": Field(Kind.IPV4, 32, IPV4),
    "ipv6_src": Field(Kind.IPV6, 128, IPV6),
    "ipv6_dst": Field(Kind.IPV6, 128, IPV6),
    "tcp_src": Field(Kind.NUMBER, 16, TCP),
    "tcp_dst": Field(Kind.NUMBER, 16, TCP),
    "udp_src": Field(Kind.NUMBER, 16, UDP),
    "udp_dst": Field(Kind.NUMBER, 16, UDP),
    "sctp_src": Field(Kind.NUMBER, 16, SCTP, settable=False),
    "sctp_dst": Field(Kind.NUMBER, 16, SCTP, settable=False),
    "icmpv4_type": Field(Kind.NUMBER, 8, ICMPV4),
    "icmpv4_code": Field(Kind.NUMBER, 8, ICMPV4),
    "icmpv6_type": Field(Kind.NUMBER, 8, ICMPV6),
    "icmpv6_code": Field(Kind.NUMBER, 8, ICMPV6),
    "ipv6_nd_target": Field(Kind.IPV6, 128, ICMPV6 | {"icmpv6_type": (135, 136)}),
    "ipv6_nd_sll": Field(Kind.MAC, 48, ICMPV6 | {"icmpv6_type": (135,)}),
    "ipv6_nd_tll": Field(Kind.MAC, 48, ICMPV6 | {"icmpv6_type": (136,)}),
    "icmpv6_nd_options_type": Field(Kind.NUMBER, 8, ICMPV6 | {"icmpv6_type": (135, 136)}),
    "icmpv6_nd_reserved": Field(Kind.NUMBER, 32, ICMPV6 | {"icmpv6_type": (135, 136)}),
    "arp_op": Field(Kind.NUMBER, 16, ARP),
    "arp_spa": Field(Kind.IPV4, 32, ARP),
    "arp_tpa": Field(Kind.IPV4, 32, ARP),
    "arp_sha": Field(Kind.MAC, 48, ARP),
    "arp_tha": Field(Kind.MAC, 48, ARP),
}


def field(name: str) -> Field:
    if name not in FIELDS:
        raise IllDefined(f"no field is called {name!r}; there are {', '.join(FIELDS)}")
    return FIELDS[name]


def satisfied(needs: Needs, have: Mapping[str, Value | None]) -> bool:
    return all(have.get(name) in allowed for name, allowed in needs.items())


@lru_cache(maxsize=65536)
def bits(name: str, value: Value) -> tuple[int, int]:
    """Return value and mask of a match field as numbers. A value that is not in canonical form raises IllDefined."""
    kind, width = field(name).kind, field(name).bits
    ones = (1 << width) - 1
    if kind is Kind.NUMBER and isinstance(value, int) and 0 <= value <= ones:
        return value, ones
    if kind is Kind.NUMBER and isinstance(value, str) and (masked := MASKED.fullmatch(value)):
        number, kept = int(masked[1], 16), int(masked[2], 16)
        if not number & ~kept and 0 < kept < ones and value == f"{number:#x}/{kept:#x}":
            return number, kept
    if kind is Kind.MAC and isinstance(value, str):
        address, slash, mask = value.partition("/")
        if MAC.fullmatch(address) and (not slash or MAC.fullmatch(mask)):
            number, kept = _mac(address), _mac(mask) if slash else ones
            if not number & ~kept and (not slash or kept not in (0, ones)):
                return number, kept
    if kind in (Kind.IPV4, Kind.IPV6) and isinstance(value, str):
        network = _network(value)
        if network is not None and network.max_prefixlen == width:
            return int(network.network_address), int(network.netmask)
    raise IllDefined(
        f"{name}={value!r} is not the canonical form of a {kind.value} of {width} bits (controller.program)"
    )


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        network = ip_network(text)
    except ValueError:
        return None
    canonical = str(network) if "/" in text else str(network.network_address)
    whole = network.prefixlen in (0, network.max_prefixlen)
    return None if text != canonical or ("/" in text and whole) else network
