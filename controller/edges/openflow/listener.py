# SPDX-License-Identifier: Apache-2.0
"""The listener for switches: connections with TLS.

The frameworks' own TLS is not used: os-ken's lets two threads into one SSL object, and Ryu's forgets, after the first
switch, to ask for certificates.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any

from controller.edges.openflow.connection import OPENING_S, Complaints, SwitchConnection, peer_of
from controller.edges.openflow.framework import LOCAL, Fence, SwitchError, hub
from controller.edges.trust.admission import Admission, Familiar, host_of, superfluous, too_often


class TlsSocket:
    """A TLS socket for a SwitchConnection."""

    def __init__(self, sock: Any, context: ssl.SSLContext) -> None:
        self._socket = sock
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)
        self._lock = threading.Lock()  # never held while anything waits
        self._sending = hub.Semaphore(1)  # held during network waits, so it must be the hub's

    def handshake(self, timeout_s: float) -> None:
        """Raise SwitchError for a peer without TLS or a valid certificate, or on timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                try:
                    data = self._socket.recv(16384)
                except TimeoutError:
                    raise SwitchError(f"no TLS handshake within {timeout_s:g} s") from None
                if not data:
                    raise SwitchError("ended during the TLS handshake") from None
                self._received.write(data)
            except ssl.SSLError as error:
                self._flush()  # the alert tells the peer the reason
                raise SwitchError(f"TLS handshake refused: {error.reason or type(error).__name__}") from error
            else:
                self._flush()
                return

    def recv(self, size: int) -> bytes:
        while True:
            try:
                with self._lock:
                    return self._tls.read(size)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                return b""
            self._flush()
            data = self._socket.recv(16384)
            if not data:
                return b""
            with self._lock:
                self._received.write(data)

    def sendall(self, data: bytes) -> None:
        with self._lock:
            self._tls.write(data)
        self._flush()

    def _flush(self) -> None:
        with self._sending:
            with self._lock:
                data = self._to_send.read()
            if data:
                self._socket.sendall(data)

    def names(self) -> frozenset[str]:
        shown: dict[str, Any] = self._tls.getpeercert() or {}
        subject = [name for part in shown.get("subject", ()) for kind, name in part if kind == "commonName"]
        return frozenset([*subject, *(name for kind, name in shown.get("subjectAltName", ()) if kind == "DNS")])

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._socket.setsockopt(level, option, value)

    def settimeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()


class UnixStream:
    """A Unix socket that ignores setsockopt: the frameworks set a TCP option on every socket."""

    def __init__(self, sock: Any) -> None:
        self._socket = sock

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Ignore the option: a Unix socket has no TCP."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


# Peers that are not known as switches yet have slots of their own. Each newcomer may evict one of them
# (edges/trust/admission.py).

OPENING_AT_ONCE = 512  # not known as switches yet


@dataclass(slots=True, eq=False)
class AcceptedConnection:
    accepted: Any
    host: str
    peer: str
    connection: SwitchConnection | None = None  # None: still in the TLS handshake
    sent_away: bool = False

    @property
    def unknown(self) -> bool:
        return not self.sent_away and (self.connection is None or not self.connection.opened)

    def end(self) -> None:
        with contextlib.suppress(OSError):  # already ended
            self.accepted.shutdown(socket.SHUT_RDWR)


class Reception:
    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._complaints = Complaints()
        self._present: dict[AcceptedConnection, None] = {}  # oldest first
        self._familiar = Familiar()  # hosts of switches
        self._admission = Admission(self._familiar, time.monotonic())
        self._counting = threading.Lock()  # never held while anything waits
        self._alone = threading.Event()
        self._alone.set()

    def serve(self, accepted: Any, address: Any) -> None:
        host = LOCAL if address[0] == LOCAL else host_of(str(address[0]))
        guest = AcceptedConnection(accepted, host, peer_of(address))
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
        for guest in self._present:
            if guest.connection is not None and guest.connection.opened:
                self._familiar.add(guest.host)

    def close(self) -> None:
        for guest in list(self._present):
            guest.end()

    def alone(self, timeout_s: float) -> bool:
        """Wait until every connection has ended. Not for the framework's threads."""
        return self._alone.wait(timeout_s)

    def _connection(self, guest: AcceptedConnection, address: Any) -> SwitchConnection:
        sock, names = guest.accepted, None
        if guest.host == LOCAL:
            sock = UnixStream(guest.accepted)
        if self._context is not None:
            sock = TlsSocket(guest.accepted, self._context)
            sock.handshake(OPENING_S)
            names = sock.names()
        guest.connection = SwitchConnection(sock, address, self._complaints, names)
        return guest.connection
