"""TLS on a socket that a thread or a greenlet reads while another writes: OpenSSL's objects bear one at a time.

The frameworks' own TLS is not used: os-ken's lets two threads into one SSL object, and Ryu's forgets, after the
first switch, to ask for certificates.
"""

from __future__ import annotations

import ssl
import threading
import time
from typing import Any

from controller.credentials import readable
from controller.framework import SwitchError, hub
from controller.model import Tls
from controller.trouble import FrameworkError


def server_context(tls: Tls) -> ssl.SSLContext:
    """Ours for switches: they must show a certificate that our authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(readable(tls.certificate), readable(tls.key))
    except OSError as error:
        raise FrameworkError(
            f"TLS certificate {tls.certificate} with key {tls.key}: {error}; expected a PEM certificate and its key"
        ) from error
    try:
        context.load_verify_locations(readable(tls.ca))
    except OSError as error:
        raise FrameworkError(f"TLS authority {tls.ca}: {error}; expected PEM certificates") from error
    return context


class TlsSocket:
    """What a connection needs of a socket, with TLS between."""

    def __init__(self, sock: Any, context: ssl.SSLContext) -> None:
        self._socket = sock
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)
        self._lock = threading.Lock()  # never held while anything waits
        self._sending = hub.Semaphore(1)  # held while the network waits, so it must be the hub's

    def handshake(self, timeout_s: float) -> None:
        """Raises SwitchError for a peer without a valid certificate, or without TLS, or too slow."""
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
                    raise SwitchError("ended in the middle of the TLS handshake") from None
                self._received.write(data)
            except ssl.SSLError as error:
                self._flush()  # the alert, so that the other side can say why
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
        """Return what the peer's certificate is made out to: its common name and its DNS names."""
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
