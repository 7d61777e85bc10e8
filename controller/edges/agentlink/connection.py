# SPDX-License-Identifier: Apache-2.0
"""One connection of an agent: TLS, and messages that their length precedes as a varint (api/agent.proto).

It takes little memory before the peer authenticates: OpenSSL's 50 KiB, and no buffers.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from typing import TypeVar

from controller.edges.agentlink.codec import breach
from controller.edges.trust.authority import Shown, shown

T = TypeVar("T")

READ_WITHIN_S = 1.0  # the last message, by the peer
READ_BYTES = 4 << 10  # a usual message; longer ones take several
RESET = struct.pack("ii", 1, 0)  # linger for 0 s
MOST_LENGTH_BITS = 28  # of a length


class AgentConnection:
    def __init__(self, sock: socket.socket, peer: str, context: ssl.SSLContext) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = peer
        self.certificate: Shown | None = None  # after the handshake; None: it has none
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._flushing = asyncio.Lock()
        self._unread = bytearray()

    async def handshake(self) -> None:
        """Raise OSError if it fails, with the reason of TLS."""
        try:
            await self._until_read(self._tls.do_handshake)
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                await self._flush()  # the alert
            raise
        der = self._tls.getpeercert(binary_form=True)
        self.certificate = shown(der) if der else None

    async def receive(self, most_bytes: int) -> bytes | None:
        """Return the next message, or None at the end. Raise Refused if it is longer."""
        try:
            length = await self._length()
            if length > most_bytes:
                raise breach(f"sent a message of {length} bytes: expected at most {most_bytes}")
            return await self._next(length)
        except OSError:
            return None

    async def send(self, message: bytes) -> None:
        """Raise OSError if the connection has ended."""
        self._tls.write(_varint(len(message)) + message)
        await self._flush()

    def cut_after(self, within_s: float) -> None:
        asyncio.get_running_loop().call_later(within_s, self.cut)

    def cut(self) -> None:
        """End it at once. Every wait for the connection ends."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """Close it once the peer has read what was sent: unread data would make the kernel send a reset at once."""
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                with contextlib.suppress(ssl.SSLError):
                    self._tls.unwrap()
                await self._flush()
                self._sock.shutdown(socket.SHUT_WR)
                while await asyncio.get_running_loop().sock_recv(self._sock, READ_BYTES):
                    pass
        except OSError:  # includes the timeout's error
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)  # the peer may not read for hours
        finally:
            self._sock.close()

    async def _length(self) -> int:
        length = 0
        for shift in range(0, MOST_LENGTH_BITS, 7):
            (byte,) = await self._next(1)
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                return length
        raise breach(f"sent a message's length of more than {MOST_LENGTH_BITS} bits")

    async def _next(self, count: int) -> bytes:
        while len(self._unread) < count:
            received = await self._until_read(lambda: self._tls.read(READ_BYTES))
            if not received:
                raise ConnectionResetError("the peer ended the connection")
            self._unread += received
        found = bytes(self._unread[:count])
        del self._unread[:count]
        return found

    async def _until_read(self, step: Callable[[], T]) -> T:
        """Return the result of a step of TLS once the peer has sent what it needs."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._flush()
                received = await asyncio.get_running_loop().sock_recv(self._sock, READ_BYTES)
                self._in.write(received) if received else self._in.write_eof()
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        async with self._flushing:
            if self._out.pending:
                await asyncio.get_running_loop().sock_sendall(self._sock, self._out.read())


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))
