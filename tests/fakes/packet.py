# SPDX-License-Identifier: Apache-2.0
"""One packet as a value: the headers that OpenFlow can name, and functions that build common packets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address
from typing import Any

from controller.program.program import Value
from tests.fakes.fields import IllDefined, bits, field, satisfied

TERMINAL_MAC = "02:00:00:00:00:c1"
GATEWAY_MAC = "02:00:00:00:00:01"
BROADCAST = "ff:ff:ff:ff:ff:ff"
NO_MAC = "00:00:00:00:00:00"
SOURCE_LINK_LAYER, TARGET_LINK_LAYER = 1, 2  # RFC 4861, 4.6.1


@dataclass(frozen=True, slots=True)
class Packet:
    """A missing header is None. `payload` only distinguishes packets; `size` is in bytes."""

    eth_src: str
    eth_dst: str
    eth_type: int
    vlan_vid: int | None = None
    ip_proto: int | None = None
    ip_dscp: int | None = None
    nw_ttl: int | None = None
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    ipv6_src: str | None = None
    ipv6_dst: str | None = None
    tcp_src: int | None = None
    tcp_dst: int | None = None
    udp_src: int | None = None
    udp_dst: int | None = None
    sctp_src: int | None = None
    sctp_dst: int | None = None
    icmpv4_type: int | None = None
    icmpv4_code: int | None = None
    icmpv6_type: int | None = None
    icmpv6_code: int | None = None
    ipv6_nd_target: str | None = None
    ipv6_nd_sll: str | None = None
    ipv6_nd_tll: str | None = None
    icmpv6_nd_options_type: int | None = None
    icmpv6_nd_reserved: int | None = None
    arp_op: int | None = None
    arp_spa: str | None = None
    arp_tpa: str | None = None
    arp_sha: str | None = None
    arp_tha: str | None = None
    payload: int = 0
    size: int = 64

    @property
    def headers(self) -> dict[str, Value]:
        values = {name: getattr(self, name) for name in self.__slots__ if name not in ("payload", "size")}
        return {name: value for name, value in values.items() if value is not None}

    def get(self, name: str) -> Value:
        """Return a field that this packet must have."""
        headers = self.headers
        if not satisfied(field(name).needs, headers) or name not in headers:
            raise IllDefined(f"this packet has no {name}: {headers}")
        return headers[name]

    def with_field(self, name: str, value: Value) -> Packet:
        self.get(name)
        bits(name, value)
        changed = replace(self, **{name: value})  # type: ignore[arg-type]
        if name == "icmpv6_nd_options_type":  # the one option becomes another, its address is empty until it is set
            return replace(changed, ipv6_nd_sll=None, ipv6_nd_tll=NO_MAC if value == TARGET_LINK_LAYER else None)
        return changed


def tcp(source: str, destination: str, *, tcp_src: int = 40000, tcp_dst: int = 80, **more: Any) -> Packet:
    return replace(ip(source, destination, 6, **more), tcp_src=tcp_src, tcp_dst=tcp_dst)


def udp(source: str, destination: str, *, udp_src: int = 40000, udp_dst: int = 53, **more: Any) -> Packet:
    return replace(ip(source, destination, 17, **more), udp_src=udp_src, udp_dst=udp_dst)


def sctp(source: str, destination: str, *, sctp_src: int = 40000, sctp_dst: int = 80, **more: Any) -> Packet:
    return replace(ip(source, destination, 132, **more), sctp_src=sctp_src, sctp_dst=sctp_dst)


def echo(source: str, destination: str, **more: Any) -> Packet:
    """Return a ping."""
    if ip_address(source).version == 4:
        return replace(ip(source, destination, 1, **more), icmpv4_type=8, icmpv4_code=0)
    return replace(ip(source, destination, 58, **more), icmpv6_type=128, icmpv6_code=0)


def ip(
    source: str,
    destination: str,
    protocol: int,
    *,
    eth_src: str = TERMINAL_MAC,
    eth_dst: str = GATEWAY_MAC,
    ttl: int = 64,
    payload: int = 0,
) -> Packet:
    """Return a packet of either family with DSCP 0. The functions above pass on their other arguments."""
    packet = Packet(eth_src, eth_dst, 0x0800, ip_proto=protocol, ip_dscp=0, nw_ttl=ttl, payload=payload)
    if ip_address(source).version == 4:
        return replace(packet, ipv4_src=source, ipv4_dst=destination)
    return replace(packet, eth_type=0x86DD, ipv6_src=source, ipv6_dst=destination)


def arp_request(source: str, target: str, *, eth_src: str = TERMINAL_MAC) -> Packet:
    """Return an ARP request of `source` for `target`."""
    return Packet(eth_src, BROADCAST, 0x0806, arp_op=1, arp_spa=source, arp_tpa=target, arp_sha=eth_src, arp_tha=NO_MAC)


def arp_reply(source: str, target: str, *, eth_src: str = TERMINAL_MAC, eth_dst: str = GATEWAY_MAC) -> Packet:
    """Return an ARP reply to `target`: `source` is at `eth_src`."""
    return Packet(eth_src, eth_dst, 0x0806, arp_op=2, arp_spa=source, arp_tpa=target, arp_sha=eth_src, arp_tha=eth_dst)


def solicit(source: str, target: str, *, eth_src: str = TERMINAL_MAC) -> Packet:
    """Return a neighbour solicitation to the solicited-node group of `target` (RFC 4861, 4.3)."""
    tail = int(IPv6Address(target)) & 0xFFFFFF
    group = str(IPv6Address(int(IPv6Address("ff02::1:ff00:0")) | tail))
    eth_dst = "33:33:ff:" + ":".join(f"{tail:06x}"[at : at + 2] for at in (0, 2, 4))
    packet = ip(source, group, 58, eth_src=eth_src, eth_dst=eth_dst, ttl=255)
    return replace(
        packet,
        icmpv6_type=135,
        icmpv6_code=0,
        ipv6_nd_target=target,
        ipv6_nd_sll=eth_src,
        icmpv6_nd_options_type=SOURCE_LINK_LAYER,
        icmpv6_nd_reserved=0,
    )


def advertise(source: str, destination: str, *, eth_src: str = TERMINAL_MAC, eth_dst: str = GATEWAY_MAC) -> Packet:
    """Return a neighbour advertisement: `source` is at `eth_src` (RFC 4861, 4.4)."""
    packet = ip(source, destination, 58, eth_src=eth_src, eth_dst=eth_dst, ttl=255)
    return replace(
        packet,
        icmpv6_type=136,
        icmpv6_code=0,
        ipv6_nd_target=source,
        ipv6_nd_tll=eth_src,
        icmpv6_nd_options_type=TARGET_LINK_LAYER,
        icmpv6_nd_reserved=0,
    )
