# SPDX-License-Identifier: Apache-2.0
"""A peer that is no switch is logged once and disconnected, and no other connection notices."""

from __future__ import annotations

import contextlib
import logging
import struct
import time
from collections.abc import Callable

import pytest

from controller.edges.openflow import connection, listener
from controller.edges.openflow.connection import OPENING_S
from controller.edges.trust import admission
from controller.protocol.switch_messages import Read, SwitchClosed, SwitchOpened
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.peers import (
    ECHO_REQUEST,
    ERROR,
    FEATURES_REPLY,
    HELLO,
    MULTIPART_REPLY,
    MULTIPART_REQUEST,
    PACKET_IN,
    Peer,
    message,
    multipart,
)
from tests.controller.edges.openflow.switches import PATIENCE_S

HALF = message(FEATURES_REPLY, bytes(24))[:5]
BITMAP_1_3 = struct.pack("!HHI", 1, 8, 1 << 4 | 1 << 6)
BITMAP_1_0 = struct.pack("!HHI", 1, 8, 1 << 1)
GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "an element of no length": message(HELLO, struct.pack("!HHI", 1, 0, 0)),
    "no hello": message(FEATURES_REPLY, bytes(24)),
    "a length of 7": message(HELLO, length=7),
    "an unknown type": message(HELLO) + message(77),
    "another version after the hello": message(HELLO) + message(ECHO_REQUEST, version=1),
    "a terminal's escape": b"\x1b[2J\x1b]0;owned\x07" * 10,
    "a flood": bytes(range(256)) * 40000,
}


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_ends_its_connection_and_is_logged_once(
    recorder: WireRecorder, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    for _ in range(3):
        with Peer(recorder.wire.address) as peer:
            try:
                peer.send(garbage)
            except ConnectionError:
                continue  # disconnected while still sending
            assert peer.is_ended()
    assert [line[:23] for line in _warnings(caplog)] == ["OpenFlow peer 127.0.0.1"]
    assert _warnings(caplog)[0].isprintable()
    assert recorder.drain() == []


def test_unfinished_handshake_ends_after_five_seconds(recorder: WireRecorder, caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    peers = [Peer(recorder.wire.address) for _ in range(4)]
    for peer, beginning in zip(peers, (b"", HALF, message(HELLO), message(HELLO) + HALF), strict=True):
        peer.send(beginning)
    for peer in peers:
        assert peer.is_ended()
        assert time.monotonic() - began > OPENING_S / 2
        peer.close()
    (told,) = _warnings(caplog)
    assert "did not complete the OpenFlow handshake within 5 s" in told


def test_talkative_peer_without_a_handshake_is_disconnected(recorder: WireRecorder) -> None:
    """The limit is five seconds, whatever else the peer sends."""
    with Peer(recorder.wire.address) as peer:
        began = time.monotonic()
        peer.send(message(HELLO))
        while time.monotonic() - began < PATIENCE_S:
            try:
                peer.send(message(ECHO_REQUEST, b"x" * 100))
                if not peer.socket.recv(65536):
                    break
            except ConnectionError:
                break
            time.sleep(0.05)  # it sends all the time without flooding
        assert OPENING_S / 2 < time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize("hello", [message(HELLO, version=1), message(HELLO, BITMAP_1_0, version=6)])
def test_other_openflow_version_is_refused_with_a_text(
    recorder: WireRecorder, caplog: pytest.LogCaptureFixture, hello: bytes
) -> None:
    for _ in range(3):
        with Peer(recorder.wire.address) as peer:
            peer.send(hello)
            got = list(iter(peer.next, None))
            assert [kind for kind, _, _ in got] == [HELLO, ERROR]
            assert got[1][2] == struct.pack("!HH", 0, 0) + b"OpenFlow 1.3 is needed"
    (told,) = _warnings(caplog)
    assert told.startswith("OpenFlow peer 127.0.0.1:")
    assert "offers OpenFlow versions 0x01; 1.3 (0x04) is needed" in told
    assert recorder.drain() == []


def test_hello_with_unknown_elements_is_accepted(recorder: WireRecorder) -> None:
    """Read without its padding, the hello ends in an element of length 0, on which the framework's parser loops."""
    unknown = struct.pack("!HH12x", 9, 12)
    with Peer(recorder.wire.address) as peer:
        peer.become_switch(5, hello=message(HELLO, unknown + BITMAP_1_3, version=6))
        assert recorder.opened(5).dpid == 5


def test_unauthenticated_peers_do_not_keep_a_switch_out(
    recorder: WireRecorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "OPENING_AT_ONCE", 8)
    monkeypatch.setattr(connection, "OPENING_S", 3600.0)  # each connection that times out frees a place
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(Peer(recorder.wire.address)) for _ in range(8)]
        for stranger in strangers:
            stranger.wait(HELLO)  # it has its place
        for dpid in (5, 6):
            stack.enter_context(Peer(recorder.wire.address)).become_switch(dpid)
            recorder.opened(dpid)
        assert strangers[0].is_ended()
        (told,) = _warnings(caplog)
        assert "the oldest of more than 8 unknown peers" in told
        for stranger in strangers[1:]:
            stranger.finish()
            assert stranger.is_ended()


def test_host_with_too_many_connections_is_refused_alone(
    recorder: WireRecorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(admission, "EACH_S", 0.01)
    monkeypatch.setattr(admission, "BURST_S", 400)  # so four at once, and another after 100 s
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(Peer(recorder.wire.address, host="127.0.0.3")) for _ in range(5)]
        assert many[4].is_ended()
        many[0].wait(HELLO)
        stack.enter_context(Peer(recorder.wire.address, host="127.0.0.2")).become_switch(5)
        recorder.opened(5)
        (told,) = _warnings(caplog)
        assert "limit of 0.01 connections per second from that host" in told


READ_FLOWS, READ_GROUPS = 0, 1  # positions in the sequence of a Read's requests
FLOW = struct.pack("!HBxIIHHHH4xQQQ", 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
NONSENSE: dict[str, Callable[[int], bytes]] = {
    "a multipart reply without a type": lambda first: message(MULTIPART_REPLY, b"0"),
    "a flow of no length": lambda first: multipart(1, bytes(100), first + READ_FLOWS),
    "a match longer than its flow": lambda first: multipart(
        1, FLOW + struct.pack("!HH12x", 1, 400), first + READ_FLOWS
    ),
    "groups in place of flows": lambda first: multipart(7, b"", first + READ_FLOWS),
    "a bucket of no length": lambda first: multipart(
        7, struct.pack("!HBxI16x", 24, 0, 0x62000000), first + READ_GROUPS
    ),
    "a packet-in from nowhere": lambda first: message(PACKET_IN, bytes(16) + struct.pack("!HH6x", 1, 4)),
    "half an error": lambda first: message(ERROR, b"0"),
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
def test_switch_that_answers_nonsense_is_disconnected(
    recorder: WireRecorder, bridge: SwitchOpened, caplog: pytest.LogCaptureFixture, nonsense: Callable[[int], bytes]
) -> None:
    with Peer(recorder.wire.address) as peer:
        peer.become_switch(5)
        session = recorder.opened(5).session
        recorder.perform(Read(session, 99))
        first, _ = peer.wait(MULTIPART_REQUEST)
        peer.send(nonsense(first))
        assert recorder.wait(SwitchClosed).session == session
        assert peer.is_ended()
    assert len(_warnings(caplog)) == 1
    assert recorder.read(bridge.session).program.flows == {}
