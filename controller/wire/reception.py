"""Who is connected: each accepted connection, with its TLS, from its first byte to its end.

Strangers fill places of their own alone: of the peers that are not known as switches yet only so many stay, and each
newcomer takes the place of another (crowd.py).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any

from controller.crowd import Admission, Familiar, host_of, superfluous, too_often
from controller.framework import Fence
from controller.wire.complaints import Complaints, peer_of
from controller.wire.connection import OPENING_S, Connection
from controller.wire.tls import TlsSocket

OPENING_AT_ONCE = 512  # peers that are not known as switches yet


@dataclass(slots=True, eq=False)
class Guest:
    accepted: Any
    host: str
    peer: str
    connection: Connection | None = None  # None: still in the TLS handshake
    sent_away: bool = False

    @property
    def unknown(self) -> bool:
        return not self.sent_away and (self.connection is None or not self.connection.opened)

    def end(self) -> None:
        """Whoever serves it hears of it."""
        with contextlib.suppress(OSError):  # it has ended by itself
            self.accepted.shutdown(socket.SHUT_RDWR)


class Reception:
    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._complaints = Complaints()
        self._present: dict[Guest, None] = {}  # in the order in which they came
        self._familiar = Familiar()  # hosts of switches
        self._admission = Admission(self._familiar, time.monotonic())
        self._counting = threading.Lock()  # never held while anything waits
        self._alone = threading.Event()
        self._alone.set()

    def serve(self, accepted: Any, address: Any) -> None:
        guest = Guest(accepted, host_of(str(address[0])), peer_of(address))
        with self._counting:
            self._recognise()
            admitted = self._admission.admits(guest.host, time.monotonic())
        if not admitted:
            accepted.close()
            self._complaints.about(guest.host, guest.peer, too_often())
            return
        with self._counting:
            self._present[guest] = None
            self._alone.clear()
            oldest = superfluous([each for each in self._present if each.unknown], OPENING_AT_ONCE, self._familiar)
            if oldest is not None:
                oldest.sent_away = True
        if oldest is not None:
            reason = f"was the oldest of more than {OPENING_AT_ONCE} unknown peers"
            self._complaints.about(oldest.host, oldest.peer, reason)
            oldest.end()
        try:
            with Fence(lambda reason: self._complaints.about(guest.host, guest.peer, reason), "TLS"):
                self._connection(guest, address).serve()
        finally:
            accepted.close()
            with self._counting:
                self._recognise()
                del self._present[guest]
                if not self._present:
                    self._alone.set()

    def _recognise(self) -> None:
        """Remember the hosts of switches."""
        for guest in self._present:
            if guest.connection is not None and guest.connection.opened:
                self._familiar.add(guest.host)

    def close(self) -> None:
        for guest in list(self._present):
            guest.end()

    def alone(self, timeout_s: float) -> bool:
        """From a plain thread: waits until every connection has ended."""
        return self._alone.wait(timeout_s)

    def _connection(self, guest: Guest, address: Any) -> Connection:
        sock, names = guest.accepted, None
        if self._context is not None:
            sock = TlsSocket(guest.accepted, self._context)
            sock.handshake(OPENING_S)
            names = sock.names()
        guest.connection = Connection(sock, address, self._complaints, names)
        return guest.connection
