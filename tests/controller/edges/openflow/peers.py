# SPDX-License-Identifier: Apache-2.0
"""Peers made of a plain socket: switches that send what a test wants, and other peers."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Self

from controller.model.settings import Endpoint
from tests.controller.edges.openflow.switches import PATIENCE_S

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 1, 2, 3, 5, 6
PACKET_IN, PORT_STATUS, FLOW_MOD = 10, 12, 14
MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 18, 19, 20, 21
PORT_DESC = 13


def message(kind: int, body: bytes = b"", xid: int = 0, version: int = 4, length: int | None = None) -> bytes:
    return struct.pack("!BBHI", version, kind, 8 + len(body) if length is None else length, xid) + body


def multipart(kind: int, body: bytes, xid: int, more: bool = False) -> bytes:
    return message(MULTIPART_REPLY, struct.pack("!HH4x", kind, more) + body, xid)


def features(dpid: int, xid: int) -> bytes:
    return message(FEATURES_REPLY, struct.pack("!QIBB2xII", dpid, 0, 254, 0, 0, 0), xid)


class Peer:
    """One connection to the controller."""

    def __init__(self, address: Endpoint, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(
            (address.host, address.port), timeout=PATIENCE_S, source_address=(host, 0)
        )
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket)
        self._buffer = b""

    @property
    def name(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def finish(self) -> None:
        """Shut down sending. Unlike after a close, the controller still reads the rest."""
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def next(self) -> tuple[int, int, bytes] | None:
        """Return type, xid and body of the next message, or None when the controller has ended the connection."""
        while len(self._buffer) < 8 or len(self._buffer) < int.from_bytes(self._buffer[2:4], "big"):
            try:
                data = self.socket.recv(65536)
            except (ConnectionResetError, BrokenPipeError):
                return None
            if not data:
                return None
            self._buffer += data
        _, kind, length, xid = struct.unpack_from("!BBHI", self._buffer)
        body, self._buffer = self._buffer[8:length], self._buffer[length:]
        return kind, xid, body

    def wait(self, kind: int) -> tuple[int, bytes]:
        """Return xid and body of the next message of this type. Echo requests in between are answered."""
        while (found := self.next()) is not None:
            if found[0] == kind:
                return found[1:]
            if found[0] == ECHO_REQUEST:
                self.send(message(ECHO_REPLY, found[2], found[1]))
        raise AssertionError(f"the controller ended the connection before a message of type {kind}")

    def is_ended(self) -> bool:
        """Wait for the end. Return False if the controller keeps the connection for a minute of silence."""
        try:
            while self.next() is not None:
                pass
        except TimeoutError:
            return False
        return True

    def become_switch(self, dpid: int, hello: bytes = message(HELLO)) -> None:
        self.send(hello)
        xid, _ = self.wait(FEATURES_REQUEST)
        self.send(features(dpid, xid))
        xid, _ = self.wait(MULTIPART_REQUEST)
        self.send(multipart(PORT_DESC, b"", xid))

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
