# SPDX-License-Identifier: Apache-2.0
"""One switch's connection: only whole, expected messages reach the framework.

The framework's own loops trust the peer. A hello element of length 0 hangs them. An unknown version ends the thread
with a traceback. A switch that stops reading blocks the sender. A switch that vanishes is never noticed.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import time
from typing import Any

from controller.edges.openflow.framework import (
    CONFIG,
    DEAD,
    HANDSHAKE,
    MAIN,
    Datapath,
    EventMessage,
    Fence,
    ParseError,
    SwitchError,
    hub,
    ofp_event,
    ofproto,
    parser,
)
from controller.model.settings import Endpoint

log = logging.getLogger(__name__)

QUIET_S = 600.0  # between one peer's lines
REMEMBERED = 1024  # peers


class Complaints:
    """A log with at most one line per peer and interval."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def about(self, peer: str, address: str, reason: str) -> None:
        now = time.monotonic()
        if now - self._last.get(peer, -QUIET_S) < QUIET_S:
            return
        if len(self._last) >= REMEMBERED:
            self._last.clear()
        self._last[peer] = now
        log.warning(
            "OpenFlow peer %s: %s; connection closed; the next message about this host follows in %g s at the earliest",
            address,
            reason,
            QUIET_S,
        )


def peer_of(address: Any) -> str:
    host, port = address[:2]
    return str(Endpoint(host, port))


# The versions of a hello: the framework's parser never returns from a malformed one

HEADER = struct.Struct(ofproto.OFP_HEADER_PACK_STR)
ELEMENT = struct.Struct("!HH")  # type, length (7.5.1)


def versions_offered(version: int, data: bytes) -> set[int]:
    """Return a hello's versions (7.5.1): those of its bitmaps, or without any all up to the header's."""
    offered: set[int] = set()
    bitmaps, offset = False, HEADER.size
    while len(data) - offset >= ELEMENT.size:
        kind, length = ELEMENT.unpack_from(data, offset)
        if length < ELEMENT.size or offset + length > len(data):
            raise SwitchError(f"sent a hello with an element of length {length}")
        if kind == ofproto.OFPHET_VERSIONBITMAP:
            bitmaps = True
            for place in range((length - ELEMENT.size) // 4):
                (bits,) = struct.unpack_from("!I", data, offset + ELEMENT.size + 4 * place)
                offered |= {32 * place + bit for bit in range(32) if bits >> bit & 1}
        offset += (length + 7) // 8 * 8
    return offered if bitmaps else set(range(1, version + 1))


OPENING_S = 5.0  # from the first byte until the switch is known
ECHO_S = 1.0
SILENT_ECHOES = 3
WAITING_MESSAGES = 4096  # queued for a switch that does not read; far fewer until the switch is known
WAITING_MESSAGES_OPENING = 64

# The states in which messages reach the framework's parsers
PARSED = {
    ofproto.OFPT_HELLO: (HANDSHAKE,),
    ofproto.OFPT_ECHO_REQUEST: (HANDSHAKE, CONFIG, MAIN),
    ofproto.OFPT_ECHO_REPLY: (HANDSHAKE, CONFIG, MAIN),
    ofproto.OFPT_FEATURES_REPLY: (CONFIG,),
    ofproto.OFPT_PORT_STATUS: (MAIN,),
}
OURS = (
    ofproto.OFPT_ERROR,
    ofproto.OFPT_MULTIPART_REPLY,
    ofproto.OFPT_BARRIER_REPLY,
    ofproto.OFPT_PACKET_IN,
    ofproto.OFPT_FLOW_REMOVED,
)


class SwitchConnection(Datapath):  # type: ignore[misc]
    """The framework's Datapath with own loops. The app sets `opened` once the switch is known."""

    def __init__(self, sock: Any, address: Any, complaints: Complaints, names: frozenset[str] | None) -> None:
        """`names` are the certificate's. None: no certificate is required."""
        self._names = names
        self._outgoing = hub.Queue()
        self._complaints = complaints
        self._received = True
        self._refused = False
        self.host = str(address[0])
        self.peer = peer_of(address)
        self.opened = False
        super().__init__(sock, address)
        self.socket.settimeout(ECHO_S * (SILENT_ECHOES + 1))  # for a peer that does not read

    def serve(self) -> None:
        """The caller closes the socket."""
        writer = hub.spawn(self._write)
        self.send_msg(parser.OFPHello(self, [parser.OFPHelloElemVersionBitmap([ofproto.OFP_VERSION])]))
        with Fence(self.complain, "reading an OpenFlow message"):
            self._read()
        self.set_state(DEAD)
        self.is_active = False
        self._outgoing.put(None)
        writer.wait()

    def send(self, buf: bytes, close_socket: bool = False) -> bool:
        """Queue a message without blocking. For the framework's threads; others use Framework.call."""
        if self._outgoing.qsize() >= (WAITING_MESSAGES if self.opened else WAITING_MESSAGES_OPENING):
            self.refuse("does not read its messages")
            return False
        self._outgoing.put(bytes(buf))
        return True

    def complain(self, reason: str) -> None:
        if not self._refused:
            self._refused = True
            peer = f"{self.host} {self.id}" if self.opened else self.host
            self._complaints.about(peer, self.peer, reason)

    def refuse(self, reason: str) -> None:
        self.complain(reason)
        self.close()

    def close(self) -> None:
        """Shut down. The reader notices and informs the app in its own thread."""
        with contextlib.suppress(OSError):  # already ended
            self.socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        buffer = b""
        while True:
            try:
                chunk = self.socket.recv(65536)
            except TimeoutError:
                continue  # the writer detects silent peers
            except OSError:
                return
            if not chunk:
                if buffer:
                    raise SwitchError(f"ended after {len(buffer)} bytes of a message")
                if not self.opened and not self._refused:
                    raise SwitchError("ended before it sent its dpid")
                return
            buffer = self._consume(buffer + chunk)
            hub.sleep(0)  # a greenlet that always finds data would never yield

    def _consume(self, buffer: bytes) -> bytes:
        start = 0
        while len(buffer) - start >= HEADER.size:
            version, kind, length, xid = HEADER.unpack_from(buffer, start)
            if length < HEADER.size:
                raise SwitchError(f"sent a message of length {length}; the shortest is {HEADER.size}")
            if self.state == HANDSHAKE and kind not in (ofproto.OFPT_HELLO, ofproto.OFPT_ERROR):
                raise SwitchError(f"began with a message of type {kind}; expected a hello ({ofproto.OFPT_HELLO})")
            if self.state != HANDSHAKE and version != ofproto.OFP_VERSION:
                raise SwitchError(
                    f"sent OpenFlow version 0x{version:02x}; the agreed version is 1.3 (0x{ofproto.OFP_VERSION:02x})"
                )
            if kind > ofproto.OFPT_METER_MOD:
                raise SwitchError(f"sent a message of type {kind}; OpenFlow 1.3 has 0 to {ofproto.OFPT_METER_MOD}")
            if len(buffer) - start < length:
                break
            self._received = True
            self._dispatch(version, kind, xid, buffer[start : start + length])
            start += length
        return buffer[start:]

    def _dispatch(self, version: int, kind: int, xid: int, data: bytes) -> None:
        if kind == ofproto.OFPT_HELLO and self.state == HANDSHAKE:
            self._negotiate_version(version, data)
            # The framework gets a plain hello: its parser loops for ever on padding or an element of length 0.
            version, data = ofproto.OFP_VERSION, HEADER.pack(ofproto.OFP_VERSION, kind, HEADER.size, xid)
        if kind in OURS and self.state == MAIN:
            self.ofp_brick.send_event_to_observers(EventMessage(self, kind, xid, data), self.state)
            return
        if self.state not in PARSED.get(kind, ()) and not self._describes_ports(kind, data):
            return
        message = self._parse(version, kind, xid, data)
        if kind == ofproto.OFPT_FEATURES_REPLY:
            self._check_dpid(message.datapath_id)
        event = ofp_event.ofp_msg_to_ev(message)
        self.ofp_brick.send_event_to_observers(event, self.state)
        for handler in self.ofp_brick.get_handlers(event, self.state):
            handler(event)

    def _check_dpid(self, dpid: int) -> None:
        if self._names is not None and f"{dpid:016x}" not in self._names:
            names = " and ".join(sorted(self._names)) or "nobody"
            raise SwitchError(
                f"has dpid {dpid:016x}, but its certificate names {names}; `bicast bridge` on its host "
                "makes one that names the dpid"
            )

    def _describes_ports(self, kind: int, data: bytes) -> bool:
        return (
            self.state == CONFIG
            and self.id is not None
            and kind == ofproto.OFPT_MULTIPART_REPLY
            and data[8:10] == ofproto.OFPMP_PORT_DESC.to_bytes(2, "big")
        )

    def _parse(self, version: int, kind: int, xid: int, data: bytes) -> Any:
        try:
            return parser.msg_parser(self, version, kind, len(data), xid, data)
        except (ParseError, struct.error, ValueError, LookupError, TypeError, AssertionError, AttributeError) as error:
            raise SwitchError(f"sent a message of type {kind} that cannot be read ({type(error).__name__})") from error

    def _negotiate_version(self, version: int, data: bytes) -> None:
        versions = versions_offered(version, data)
        if ofproto.OFP_VERSION in versions:
            return
        refusal = parser.OFPErrorMsg(
            self, type_=ofproto.OFPET_HELLO_FAILED, code=ofproto.OFPHFC_INCOMPATIBLE, data=b"OpenFlow 1.3 is needed"
        )
        self.send_msg(refusal)
        shown = ", ".join(f"0x{number:02x}" for number in sorted(versions)) or "none"
        raise SwitchError(f"offers OpenFlow versions {shown}; 1.3 (0x04) is needed")

    def _write(self) -> None:
        started = time.monotonic()
        silent, next_echo = 0, started + ECHO_S
        while True:
            try:
                data = self._outgoing.get(timeout=max(next_echo - time.monotonic(), 0.001))
                if data is None:
                    break
                self.socket.sendall(data)
            except hub.QueueEmpty:
                pass
            except OSError:
                self.refuse("does not accept messages")
            now = time.monotonic()
            if now < next_echo:
                continue
            next_echo = now + ECHO_S
            silent = 0 if self._received else silent + 1
            self._received = False
            if self.opened and silent >= SILENT_ECHOES:
                self.refuse(f"answered none of {silent} echo requests")
            elif self.opened:
                self.send_msg(parser.OFPEchoRequest(self))
            elif now - started >= OPENING_S:
                self.refuse(f"did not complete the OpenFlow handshake within {OPENING_S:g} s")
        self.close()
