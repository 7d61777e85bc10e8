# SPDX-License-Identifier: Apache-2.0
"""Another library reads the frames that we send. Invalid received frames are ignored."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from controller.edges.openflow import framework
from controller.edges.openflow.frames import advertise, ask, ask_far, seen
from controller.model.traffic import Address, Protocol
from controller.protocol.switch_messages import Advertise, Ask, AskFar, FarAnswered, NeighbourSeen, Solicited

OURS, THEIRS = "08:00:27:f9:49:62", "08:00:27:86:0d:bc"
V4, V4_TARGET = IPv4Address("192.168.110.2"), IPv4Address("192.168.110.3")
V6, V6_TARGET = IPv6Address("fd00:110::2"), IPv6Address("fd00:110::ab:cdef")
NOBODY = IPv6Address("::")

REQUEST = ask(Ask(1, 2, OURS, V4, V4_TARGET))
SOLICITATION = ask(Ask(1, 2, OURS, V6, V6_TARGET))
ADVERTISEMENT = advertise(Advertise(1, 2, OURS, V6, V6_TARGET, THEIRS))
FRAMES = [REQUEST, SOLICITATION, ADVERTISEMENT]


def _headers(frame: bytes) -> list[Any]:
    """Parse a frame with the framework's packet library."""
    packet = importlib.import_module(f"{framework.NAME}.lib.packet.packet")
    headers: list[Any] = list(packet.Packet(frame).protocols)
    return headers


def _events(frame: bytes) -> list[NeighbourSeen | Solicited | FarAnswered]:
    return list(seen(1, 2, frame))


def _duplicate_address_detection(target: IPv6Address) -> bytes:
    """Return a solicitation of duplicate address detection."""
    frame = bytearray(ask(Ask(1, 2, THEIRS, NOBODY, target))[:-8])  # without the option
    frame[18:20] = (24).to_bytes(2, "big")
    return _with_checksum(bytes(frame))


def _with_checksum(frame: bytes) -> bytes:
    """Return the frame with a correct checksum, computed as in RFC 1071."""
    body = frame[54:56] + b"\0\0" + frame[58:]
    data = frame[22:54] + len(body).to_bytes(4, "big") + (58).to_bytes(4, "big") + body + b"\0" * (len(body) % 2)
    total = sum(int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2))
    return frame[:56] + (-total % 0xFFFF).to_bytes(2, "big") + frame[58:]


def _with(frame: bytes, place: int, value: bytes) -> bytes:
    changed = frame[:place] + value + frame[place + len(value) :]
    return _with_checksum(changed) if changed[12:14] == b"\x86\xdd" else changed


FAR_V4, FAR_V6 = IPv4Address("203.0.113.5"), IPv6Address("2001:db8::5")
ECHO_V4, ECHO_V6, QUERY_V4, QUERY_V6 = (
    ask_far(AskFar(1, 2, OURS, THEIRS, *ends, 0xABCD, protocol))
    for protocol, ends in product((Protocol.ICMP, Protocol.UDP), ((V4, FAR_V4), (V6, FAR_V6)))
)


@pytest.mark.parametrize("frame, kind", [(ECHO_V4, 8), (ECHO_V6, 128)])
def test_echo_request_to_the_next_hop_has_right_checksums(frame: bytes, kind: int) -> None:
    ethernet, ip, icmp = _headers(frame)[:3]
    source, target = (V4, FAR_V4) if kind == 8 else (V6, FAR_V6)
    assert (ethernet.dst, ethernet.src, ip.src, ip.dst) == (THEIRS, OURS, str(source), str(target))
    ttl = ip.ttl if kind == 8 else ip.hop_limit
    assert (ttl, getattr(icmp, "type_", None) or icmp.type, icmp.code, icmp.data.seq) == (64, kind, 0, 0xABCD)
    if kind == 8:
        assert [_ones(frame[14:34]), _ones(frame[34:])] == [0xFFFF, 0xFFFF]
    else:
        assert frame == _with_checksum(frame)


@pytest.mark.parametrize("frame, source, target", [(QUERY_V4, V4, FAR_V4), (QUERY_V6, V6, FAR_V6)])
def test_dns_query_asks_for_the_root_and_has_a_right_checksum(frame: bytes, source: Address, target: Address) -> None:
    ethernet, ip, udp, query = _headers(frame)[:4]
    assert (ethernet.dst, ip.src, ip.dst, udp.src_port, udp.dst_port) == (THEIRS, str(source), str(target), 25187, 53)
    assert query == bytes.fromhex("abcd 0100 0001 0000 0000 0000 00 0006 0001")
    assert _udp_sum(frame) == 0xFFFF


def _udp_sum(frame: bytes) -> int:
    at, addresses = (34, frame[26:34]) if frame[12:14] == b"\x08\x00" else (54, frame[22:54])
    return _ones(
        addresses + bytes((0, 17)) + (len(frame) - at).to_bytes(2, "big") + frame[at:] + b"\0" * (len(frame) % 2)
    )


def _ones(data: bytes) -> int:
    total = sum(int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2))
    return (total & 0xFFFF) + (total >> 16)


def _replied(frame: bytes) -> bytes:
    """Return the reply of the probed address."""
    if frame[12:14] == b"\x86\xdd":
        return _with_checksum(frame[:22] + frame[38:54] + frame[22:38] + b"\x81" + frame[55:])
    body = b"\0\0\0\0" + frame[38:]
    checksum = 0xFFFF - _ones(body)
    return frame[:26] + frame[30:34] + frame[26:30] + body[:2] + checksum.to_bytes(2, "big") + body[4:]


def test_only_a_valid_reply_to_our_echo_is_accepted() -> None:
    for frame, source, at in ((ECHO_V4, FAR_V4, 34), (ECHO_V6, FAR_V6, 54)):
        reply = _replied(frame)
        assert _events(reply) == [FarAnswered(1, 2, source, 0xABCD)]
        assert _events(reply + b"\0\0") == _events(reply), "Ethernet pads"
        assert _events(frame) == [], "a request is no reply"
        another = reply[: at + 4] + b"\x11\x11" + reply[at + 6 :]
        broken = reply[:-1] + b"!"
        assert _events(another) == _events(broken) == []
        for length in range(len(reply)):
            assert _events(reply[:length]) == []


def _responded(frame: bytes, flags: bytes = b"\x81\x80") -> bytes:
    """Return the response of a name server."""
    at, ends = (34, (26, 30, 34)) if frame[12:14] == b"\x08\x00" else (54, (22, 38, 54))
    first, middle, last = ends
    swapped = frame[:first] + frame[middle:last] + frame[first:middle]
    reply = swapped + frame[at + 2 : at + 4] + frame[at : at + 2] + frame[at + 4 : at + 6] + b"\0\0"
    reply += frame[at + 8 : at + 10] + flags + frame[at + 12 :]
    checksum = 0xFFFF - _udp_sum(reply)
    return reply[: at + 6] + checksum.to_bytes(2, "big") + reply[at + 8 :]


def test_only_a_response_to_our_dns_query_is_accepted() -> None:
    for frame, source, at in ((QUERY_V4, FAR_V4, 34), (QUERY_V6, FAR_V6, 54)):
        response = _responded(frame)
        assert _events(response) == [FarAnswered(1, 2, source, 0xABCD)]
        assert _events(_responded(frame, b"\x01\0")) == _events(frame) == [], "a query is no response"
        to_another_port = response[: at + 2] + b"\x11\x11" + response[at + 4 :]
        assert _events(to_another_port) == _events(response[:-1] + b"!") == []
        for length in range(len(response)):
            assert _events(response[:length]) == []
        without_checksum = response[: at + 6] + b"\0\0" + response[at + 8 :]
        assert len(_events(without_checksum)) == (at == 34), "only over IPv4 may it be left out"


def test_ipv4_address_is_resolved_by_arp() -> None:
    ethernet, arp = _headers(REQUEST)[:2]
    assert (ethernet.dst, ethernet.src, ethernet.ethertype) == ("ff:ff:ff:ff:ff:ff", OURS, 0x0806)
    assert (arp.opcode, arp.src_mac, arp.src_ip, arp.dst_ip) == (1, OURS, str(V4), str(V4_TARGET))
    assert (arp.hwtype, arp.proto, arp.hlen, arp.plen, arp.dst_mac) == (1, 0x0800, 6, 4, "00:00:00:00:00:00")


def test_ipv6_address_is_resolved_in_its_solicited_node_group() -> None:
    ethernet, ipv6, icmpv6 = _headers(SOLICITATION)[:3]
    assert (ethernet.dst, ethernet.src) == ("33:33:ff:ab:cd:ef", OURS)
    assert (ipv6.src, ipv6.dst, ipv6.nxt, ipv6.hop_limit) == (str(V6), "ff02::1:ffab:cdef", 58, 255)
    assert (icmpv6.type_, icmpv6.code, icmpv6.data.dst) == (135, 0, str(V6_TARGET))
    assert icmpv6.data.option.hw_src == OURS
    assert _with_checksum(SOLICITATION) == SOLICITATION


def test_advertisement_goes_to_the_asker_alone() -> None:
    ethernet, ipv6, icmpv6 = _headers(ADVERTISEMENT)[:3]
    assert (ethernet.dst, ethernet.src) == (THEIRS, OURS)
    assert (ipv6.src, ipv6.dst, ipv6.hop_limit) == (str(V6), str(V6_TARGET), 255)
    assert (icmpv6.type_, icmpv6.data.dst, icmpv6.data.option.hw_src) == (136, str(V6), OURS)
    assert _with_checksum(ADVERTISEMENT) == ADVERTISEMENT


@pytest.mark.parametrize("proxied", [False, True])
def test_flags_of_an_advertisement_say_who_answers_whom(proxied: bool) -> None:
    """A proxied one is no router's and overrides nothing."""
    for asker, solicited in ((V6_TARGET, 0b010), (NOBODY, 0b000)):
        ethernet, ipv6, icmpv6 = _headers(advertise(Advertise(1, 2, OURS, V6, asker, THEIRS, proxied=proxied)))[:3]
        assert icmpv6.data.res == solicited | (0b000 if proxied else 0b101)
    assert (ethernet.dst, ipv6.dst) == ("33:33:00:00:00:01", "ff02::1"), "detection of duplicates has no address yet"


OURS_SEEN = NeighbourSeen(1, 2, V6, OURS)
YIELDS: dict[str, tuple[bytes, list[NeighbourSeen | Solicited]]] = {
    "an ARP request": (REQUEST, [NeighbourSeen(1, 2, V4, OURS)]),
    "an ARP reply": (_with(REQUEST, 20, b"\0\2"), [NeighbourSeen(1, 2, V4, OURS)]),
    "ARP padded to Ethernet's minimum": (REQUEST + bytes(18), [NeighbourSeen(1, 2, V4, OURS)]),
    "a solicitation": (SOLICITATION, [OURS_SEEN, Solicited(1, 2, V6_TARGET, V6, OURS)]),
    "duplicate address detection": (_duplicate_address_detection(V6), [Solicited(1, 2, V6, NOBODY, THEIRS)]),
    "an advertisement": (ADVERTISEMENT, [OURS_SEEN]),
    "an unsolicited advertisement": (advertise(Advertise(1, 2, OURS, V6, NOBODY, THEIRS)), [OURS_SEEN]),
}


@pytest.mark.parametrize(("frame", "events"), YIELDS.values(), ids=YIELDS)
def test_frame_yields_its_sender_and_what_it_asks_for(frame: bytes, events: list[NeighbourSeen | Solicited]) -> None:
    assert _events(frame) == events


WRONG = {
    "another ARP operation": _with(REQUEST, 20, b"\0\3"),
    "another hardware": _with(REQUEST, 14, b"\0\6"),
    "another address length": _with(REQUEST, 19, b"\x06"),
    "a multicast sender": _with(REQUEST, 22, b"\x01"),
    "a sender without MAC": _with(REQUEST, 22, bytes(6)),
    "a sender without address": _with(REQUEST, 28, bytes(4)),
    "a sender called broadcast": _with(REQUEST, 28, b"\xff" * 4),
    "a sender called multicast": _with(REQUEST, 28, b"\xe0"),
    "a hop limit of 254": _with(SOLICITATION, 21, b"\xfe"),
    "a wrong checksum": SOLICITATION[:56] + bytes(2) + SOLICITATION[58:],
    "a code": _with(SOLICITATION, 55, b"\1"),
    "a multicast target": _with(SOLICITATION, 62, b"\xff"),
    "an unspecified target": _with(SOLICITATION, 62, bytes(16)),
    "an option of no length": _with(SOLICITATION, 79, b"\0"),
    "an option beyond the end": _with(SOLICITATION, 79, b"\2"),
    "a multicast MAC": _with(SOLICITATION, 80, b"\x33"),
    "no MAC": _with(SOLICITATION, 80, bytes(6)),
    "a multicast asker": _with(SOLICITATION, 22, b"\xff"),
    "no asker but its MAC": _with(SOLICITATION, 22, bytes(16)),
    "unicast duplicate address detection": _with(_duplicate_address_detection(V6), 38, V6.packed),
    "another next header": _with(SOLICITATION, 20, b"\x06"),
    "another IP version": _with(SOLICITATION, 14, b"\x40"),
    "a payload longer than the frame": _with(SOLICITATION, 18, b"\xff\xff"),
    "another ICMPv6 type": _with(SOLICITATION, 54, b"\x80"),
    "an advertisement without a MAC": _with(ADVERTISEMENT, 78, b"\x05"),
    "a solicited answer to all": _with(ADVERTISEMENT, 38, IPv6Address("ff02::1").packed),
    "IPv4": _with(REQUEST, 12, b"\x08\0"),
}


@pytest.mark.parametrize("frame", WRONG.values(), ids=WRONG)
def test_invalid_frame_yields_nothing(frame: bytes) -> None:
    assert _events(frame) == []


@pytest.mark.parametrize("frame", FRAMES, ids=["arp", "solicitation", "advertisement"])
def test_truncated_frame_yields_nothing(frame: bytes) -> None:
    assert [length for length in range(len(frame)) if _events(frame[:length])] == []


@given(some.sampled_from(FRAMES), some.lists(some.tuples(some.integers(0, 90), some.binary(min_size=1, max_size=4))))
def test_random_frame_raises_nothing(frame: bytes, changes: list[tuple[int, bytes]]) -> None:
    for place, value in changes:
        frame = _with(frame, place, value) if len(frame) > 60 else frame
    for told in _events(frame):
        addresses: list[Address] = [told.address] if isinstance(told, NeighbourSeen) else [told.target]
        assert not any(address.is_unspecified or address.is_multicast for address in addresses)


@given(some.ip_addresses(v=6), some.ip_addresses(v=6), some.binary(min_size=6, max_size=6))
def test_solicitation_is_read_as_it_was_made(source: IPv6Address, target: IPv6Address, mac: bytes) -> None:
    good: Callable[[IPv6Address], bool] = lambda address: not (address.is_multicast or address.is_unspecified)  # noqa: E731
    if good(source) and good(target) and not mac[0] & 1 and any(mac):
        text = mac.hex(":")
        told = _events(ask(Ask(1, 2, text, source, target)))
        assert told == [NeighbourSeen(1, 2, source, text), Solicited(1, 2, target, source, text)]
