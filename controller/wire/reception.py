"""Who is connected: each accepted connection, with its TLS, from its first byte to its end."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import Any

from controller.framework import Fence
from controller.wire.complaints import Complaints, peer_of
from controller.wire.connection import OPENING_S, Connection
from controller.wire.tls import TlsSocket

OPENING_AT_ONCE = 512  # peers that are not known as switches yet


class Reception:
    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._complaints = Complaints()
        self._present: dict[Any, Connection | None] = {}  # by socket; None: still in the TLS handshake
        self._counting = threading.Lock()  # never held while anything waits
        self._alone = threading.Event()
        self._alone.set()

    def serve(self, accepted: Any, address: Any) -> None:
        if sum(guest is None or not guest.opened for guest in list(self._present.values())) >= OPENING_AT_ONCE:
            self._complaints.about("", peer_of(address), f"is one of more than {OPENING_AT_ONCE} unknown peers at once")
            accepted.close()
            return
        with self._counting:
            self._present[accepted] = None
            self._alone.clear()
        try:
            with Fence(lambda reason: self._complaints.about(str(address[0]), peer_of(address), reason), "TLS"):
                self._connection(accepted, address).serve()
        finally:
            accepted.close()
            with self._counting:
                del self._present[accepted]
                if not self._present:
                    self._alone.set()

    def close(self) -> None:
        for accepted in list(self._present):
            with contextlib.suppress(OSError):  # it has ended by itself
                accepted.shutdown(socket.SHUT_RDWR)

    def alone(self, timeout_s: float) -> bool:
        """From a plain thread: waits until every connection has ended."""
        return self._alone.wait(timeout_s)

    def _connection(self, accepted: Any, address: Any) -> Connection:
        sock = accepted
        if self._context is not None:
            sock = TlsSocket(accepted, self._context)
            sock.handshake(OPENING_S)
        connection = Connection(sock, address, self._complaints)
        self._present[accepted] = connection
        return connection
