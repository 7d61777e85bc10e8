# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames of ARP, neighbour discovery, echo requests and DNS queries.

Received frames are untrusted: a frame that breaks RFC 768, 792, 826, 4443 or 4861 has no contents, and raises nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

from controller.model.traffic import ASKED_FROM_PORT, DNS_PORT, Address, Family, Protocol
from controller.protocol.switch_messages import Advertise, Ask, AskFar, FarAnswered, NeighbourSeen, Solicited

ETHERNET = struct.Struct("!6s6sH")
ARP = struct.Struct("!HHBBH6s4s6s4s")
IPV4 = struct.Struct("!BBHHHBBH4s4s")
IPV6 = struct.Struct("!IHBB16s16s")
ECHO = struct.Struct("!BBHHH")  # type, code, checksum, identifier, number
UDP = struct.Struct("!HHHH")  # source port, destination port, length, checksum
DNS = struct.Struct("!HHHHHH")  # number, flags, questions, answers, authorities, additional
NEIGHBOUR = struct.Struct("!BBHI16s")  # type, code, checksum, flags, target

ETH_ARP, ETH_IPV4, ETH_IPV6 = 0x0806, 0x0800, 0x86DD
ICMP, ICMPV6, UDP_PROTOCOL = 1, 58, 17
SOLICITATION, ADVERTISEMENT = 135, 136
SOURCE_LINK, TARGET_LINK = 1, 2  # options (RFC 4861 4.6)
ROUTER, SOLICITED_FLAG, OVERRIDE = 0x8000_0000, 0x4000_0000, 0x2000_0000
HOP_LIMIT = 255  # no router forwarded the packet (RFC 4861 7.1)
REQUEST, REPLY = 1, 2
ECHO_ID = 0x6263  # "bc"
ECHO_DATA = b"bicast reachable"
DNS_REQUEST, DNS_RESPONSE = 0x0100, 0x8000  # flags: recursion desired; this is a response
DNS_QUESTION = b"\0" + struct.pack("!HH", 6, 1)  # the root's SOA in class IN: any name server has a short answer
FAR_TTL = 64
BROADCAST = b"\xff" * 6
ALL_NODES = IPv6Address("ff02::1")
NOBODY = IPv6Address("::")


def ask(order: Ask) -> bytes:
    """Return an ARP request, or a neighbour solicitation to the target's solicited-node group."""
    mac = _mac(order.source_mac)
    if isinstance(order.target, IPv4Address):
        header = ETHERNET.pack(BROADCAST, mac, ETH_ARP)
        return header + ARP.pack(1, 0x0800, 6, 4, REQUEST, mac, order.source.packed, bytes(6), order.target.packed)
    group = _solicited_node(order.target)
    body = NEIGHBOUR.pack(SOLICITATION, 0, 0, 0, order.target.packed) + bytes((SOURCE_LINK, 1)) + mac
    return _icmpv6(mac, _multicast_mac(group), IPv6Address(order.source), group, body)


def advertise(order: Advertise) -> bytes:
    """Return the answer to a solicitation. A duplicate address test (from `::`) gets a multicast (RFC 4861 7.2.4).

    For a terminal's address the router and override flags are clear: the terminal's own answer wins (7.2.8).
    """
    mac, target, asker = _mac(order.mac), IPv6Address(order.target), IPv6Address(order.asker)
    flags = 0 if order.proxied else ROUTER | OVERRIDE
    if asker == NOBODY:
        receiver, receiver_mac = ALL_NODES, _multicast_mac(ALL_NODES)
    else:
        flags, receiver, receiver_mac = flags | SOLICITED_FLAG, asker, _mac(order.asker_mac)
    body = NEIGHBOUR.pack(ADVERTISEMENT, 0, 0, flags, target.packed) + bytes((TARGET_LINK, 1)) + mac
    return _icmpv6(mac, receiver_mac, target, receiver, body)


def ask_far(order: AskFar) -> bytes:
    """Return an echo request or a DNS query. A NAT may rewrite its identifier or port, and restores it in the reply."""
    mac, hop_mac, source, target = _mac(order.source_mac), _mac(order.hop_mac), order.source, order.target
    protocol, body = _far_body(order)
    if isinstance(source, IPv6Address):
        return _ipv6(mac, hop_mac, source, IPv6Address(target), protocol, body, FAR_TTL)
    length = IPV4.size + len(body)
    header = IPV4.pack(0x45, 0, length, order.number, 0, FAR_TTL, protocol, 0, source.packed, target.packed)
    return ETHERNET.pack(hop_mac, mac, ETH_IPV4) + _with_checksum(header, 10, _sum(header)) + body


def _far_body(order: AskFar) -> tuple[int, bytes]:
    """Return the protocol's number and what follows the IP header."""
    family = Family.of(order.target)
    protocol = order.protocol.number(family)
    if order.protocol is Protocol.UDP:
        query = DNS.pack(order.number, DNS_REQUEST, 1, 0, 0, 0) + DNS_QUESTION
        body = UDP.pack(ASKED_FROM_PORT, DNS_PORT, UDP.size + len(query), 0) + query
        checksum = _checksum(order.source.packed, order.target.packed, protocol, body)
        return protocol, _with_checksum(body, 6, checksum or 0xFFFF)  # 0 says that there is none
    body = ECHO.pack(family.echo_request, 0, 0, ECHO_ID, order.number) + ECHO_DATA
    if family is Family.IPV6:
        return protocol, _with_checksum(body, 2, _checksum(order.source.packed, order.target.packed, protocol, body))
    return protocol, _with_checksum(body, 2, _sum(body))


def seen(session: int, in_port: int, frame: bytes) -> Iterator[NeighbourSeen | Solicited | FarAnswered]:
    if len(frame) < ETHERNET.size:
        return
    _, source_mac, eth_type = ETHERNET.unpack_from(frame)
    payload = frame[ETHERNET.size :]
    if eth_type == ETH_ARP:
        yield from _seen_arp(session, in_port, payload)
    elif eth_type == ETH_IPV4:
        yield from _far_answer_ipv4(session, in_port, payload)
    elif eth_type == ETH_IPV6:
        yield from _far_answer_ipv6(session, in_port, payload)
        yield from _seen_ipv6(session, in_port, source_mac, payload)


def _far_answer_ipv4(session: int, in_port: int, data: bytes) -> Iterator[FarAnswered]:
    if len(data) < IPV4.size:
        return
    first, _, length, _, fragment, _, protocol, _, source, destination = IPV4.unpack_from(data)
    size = 4 * (first & 0xF)
    if first >> 4 != 4 or size < IPV4.size or fragment & 0x3FFF or length > len(data):
        return
    body = data[size:length]
    if protocol == ICMP and not _sum(body):
        yield from _echo_reply(session, in_port, IPv4Address(source), body)
    elif protocol == UDP_PROTOCOL and (
        _has_no_udp_checksum(body) or not _checksum(source, destination, protocol, body)
    ):
        yield from _dns_response(session, in_port, IPv4Address(source), body)


def _far_answer_ipv6(session: int, in_port: int, data: bytes) -> Iterator[FarAnswered]:
    if len(data) < IPV6.size:
        return
    first, length, protocol, _, source, destination = IPV6.unpack_from(data)
    body = data[IPV6.size : IPV6.size + length]
    if first >> 28 != 6 or len(body) != length or _checksum(source, destination, protocol, body):
        return
    if protocol == ICMPV6:
        yield from _echo_reply(session, in_port, IPv6Address(source), body)
    elif protocol == UDP_PROTOCOL and not _has_no_udp_checksum(body):
        yield from _dns_response(session, in_port, IPv6Address(source), body)


def _has_no_udp_checksum(body: bytes) -> bool:
    return body[6:8] == b"\0\0"


def _echo_reply(session: int, in_port: int, source: Address, body: bytes) -> Iterator[FarAnswered]:
    if len(body) < ECHO.size:
        return
    kind, code, _, identifier, number = ECHO.unpack_from(body)
    if (kind, code, identifier) == (Family.of(source).echo_reply, 0, ECHO_ID):
        yield FarAnswered(session, in_port, source, number)


def _dns_response(session: int, in_port: int, source: Address, body: bytes) -> Iterator[FarAnswered]:
    if len(body) < UDP.size + DNS.size:
        return
    ports, (number, flags, *_) = UDP.unpack_from(body)[:2], DNS.unpack_from(body, UDP.size)
    if ports == (DNS_PORT, ASKED_FROM_PORT) and flags & DNS_RESPONSE:
        yield FarAnswered(session, in_port, source, number)


def _seen_arp(session: int, in_port: int, data: bytes) -> Iterator[NeighbourSeen]:
    if len(data) < ARP.size:
        return
    hardware, protocol, mac_size, address_size, operation, mac, address, _, _ = ARP.unpack_from(data)
    if (hardware, protocol, mac_size, address_size) == (1, 0x0800, 6, 4) and operation in (REQUEST, REPLY):
        yield from _neighbour(session, in_port, IPv4Address(address), mac)


def _seen_ipv6(session: int, in_port: int, ethernet_source: bytes, data: bytes) -> Iterator[NeighbourSeen | Solicited]:
    if len(data) < IPV6.size + NEIGHBOUR.size:
        return
    first, length, protocol, hop_limit, source, destination = IPV6.unpack_from(data)
    body = data[IPV6.size : IPV6.size + length]
    if first >> 28 != 6 or protocol != ICMPV6 or hop_limit != HOP_LIMIT or len(body) != length:
        return
    if length < NEIGHBOUR.size or _checksum(source, destination, ICMPV6, body):
        return
    kind, code, _, flags, target_bytes = NEIGHBOUR.unpack_from(body)
    options = _options(body[NEIGHBOUR.size :])
    asker, target, receiver = IPv6Address(source), IPv6Address(target_bytes), IPv6Address(destination)
    if code or options is None or target.is_multicast or asker.is_multicast:
        return
    if kind == ADVERTISEMENT and TARGET_LINK in options and not (receiver.is_multicast and flags & SOLICITED_FLAG):
        yield from _neighbour(session, in_port, target, options[TARGET_LINK])
    elif kind == SOLICITATION and target != NOBODY:
        if asker == NOBODY and (SOURCE_LINK in options or receiver != _solicited_node(target)):
            return
        mac = options.get(SOURCE_LINK, ethernet_source)
        if SOURCE_LINK in options:
            yield from _neighbour(session, in_port, asker, mac)
        if _is_unicast(mac):
            yield Solicited(session, in_port, target, asker, mac.hex(":"))


def _neighbour(session: int, in_port: int, address: Address, mac: bytes) -> Iterator[NeighbourSeen]:
    nobody = address.is_unspecified or address.is_multicast or address == IPv4Address("255.255.255.255")
    if not nobody and _is_unicast(mac):
        yield NeighbourSeen(session, in_port, address, mac.hex(":"))


def _is_unicast(mac: bytes) -> bool:
    return mac != bytes(6) and not mac[0] & 1


def _options(data: bytes) -> dict[int, bytes] | None:
    """Return link-layer options. None: the list is invalid, so the packet is discarded (RFC 4861 4.6)."""
    found: dict[int, bytes] = {}
    while data:
        if len(data) < 2 or data[1] == 0 or len(data) < 8 * data[1]:
            return None
        kind, size = data[0], 8 * data[1]
        if size == 8:
            found.setdefault(kind, data[2:8])
        data = data[size:]
    return found


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _solicited_node(target: IPv6Address) -> IPv6Address:
    return IPv6Address(IPv6Address("ff02::1:ff00:0").packed[:13] + target.packed[13:])


def _multicast_mac(group: IPv6Address) -> bytes:
    return b"\x33\x33" + group.packed[12:]  # RFC 2464 7


def _checksum(source: bytes, destination: bytes, protocol: int, body: bytes) -> int:
    """Return the checksum with pseudo header (RFC 768, RFC 8200 8.1); 0 if the body's is right."""
    return _sum(source + destination + struct.pack("!II", len(body), protocol) + body)


def _sum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071); 0 if the data's is right."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _with_checksum(data: bytes, at: int, checksum: int) -> bytes:
    return data[:at] + checksum.to_bytes(2, "big") + data[at + 2 :]


def _icmpv6(source_mac: bytes, receiver_mac: bytes, source: IPv6Address, receiver: IPv6Address, body: bytes) -> bytes:
    body = _with_checksum(body, 2, _checksum(source.packed, receiver.packed, ICMPV6, body))
    return _ipv6(source_mac, receiver_mac, source, receiver, ICMPV6, body, HOP_LIMIT)


def _ipv6(
    source_mac: bytes,
    receiver_mac: bytes,
    source: IPv6Address,
    receiver: IPv6Address,
    protocol: int,
    body: bytes,
    hop_limit: int,
) -> bytes:
    header = IPV6.pack(6 << 28, len(body), protocol, hop_limit, source.packed, receiver.packed)
    return ETHERNET.pack(receiver_mac, source_mac, ETH_IPV6) + header + body
