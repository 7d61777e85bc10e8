# SPDX-License-Identifier: Apache-2.0
"""The exchange between home and a new far site: messages in JSON over TLS, on one connection.

    home                                              far
      │  TLS: home compares the certificate with the pin │
      │ ── token and facts ────────────────────────────► │ the token, once
      │ ◄──────────────────────────────── the answers ── │

A peer without the token gets no byte of an answer. Bytes, time and connections of strangers have limits.
"""

from __future__ import annotations

import hmac
import json
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller.edges.trust.admission import host_of, superfluous
from controller.model.settings import Endpoint
from gateway.host import HostError
from gateway.init.invitation import Invitation, new_token, pin_of

VALID_S = 15 * 60
STRANGER_S = 10.0  # for the handshake and the token together; a phone's link needs less than three
MOST_STRANGERS = 16
MOST_HELLO_BYTES = 8 << 10  # the token, and facts of at most eight uplinks
MOST_BYTES = 128 << 10  # a message between the two ends once they know each other
CLOCKS_DIFFER_S = 86400  # home pins the certificate and ignores its dates
LENGTH = struct.Struct("!I")
NEW_LINE = "run `bicast init --far` there again, and type the line that it prints here"


class ExchangeError(HostError):
    """The exchange ended without a result. The sentence says what to do."""


class Channel:
    """One end of an exchange."""

    def __init__(self, tls: ssl.SSLSocket, peer: str) -> None:
        self._tls, self.peer = tls, peer

    def send(self, message: Mapping[str, Any]) -> None:
        raw = json.dumps(message).encode()
        try:
            self._tls.settimeout(STRANGER_S)
            self._tls.sendall(LENGTH.pack(len(raw)) + raw)
        except OSError as error:
            raise ExchangeError(f"the connection with {self.peer} broke off ({_why(error)})") from error

    def receive(self, within_s: float, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
        deadline = time.monotonic() + within_s
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        if length > most_bytes:
            raise ExchangeError(f"{self.peer} sent a message of {length} bytes: expected {most_bytes} at most")
        try:
            message = json.loads(self._read(length, deadline))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise ExchangeError(f"{self.peer} sent something that is no message")
        return message

    def _read(self, length: int, deadline: float) -> bytes:
        """Return exactly this many bytes. The deadline is for all of them, however slowly they arrive."""
        parts: list[bytes] = []
        try:
            while length:
                self._tls.settimeout(max(deadline - time.monotonic(), 0.001))
                part = self._tls.recv(length)
                if not part:
                    raise ExchangeError(f"{self.peer} ended the connection")
                parts.append(part)
                length -= len(part)
                if length and time.monotonic() >= deadline:
                    raise TimeoutError("timed out")
        except OSError as error:
            raise ExchangeError(f"the connection with {self.peer} broke off ({_why(error)})") from error
        return b"".join(parts)

    def close(self) -> None:
        with suppress(OSError):
            self._tls.shutdown(socket.SHUT_RDWR)
        self._tls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# The far end


@dataclass(frozen=True, slots=True)
class Stranger:
    """A connection that has not shown the token."""

    tls: ssl.SSLSocket
    host: str

    def dismiss(self) -> None:
        """End the connection. Its thread closes the socket."""
        with suppress(OSError):
            socket.socket.shutdown(self.tls, socket.SHUT_RDWR)


class Reception:
    """A listener for the one peer that has the token."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, pin: str) -> None:
        self._listener, self._context = listener, context
        self._token, self._pin = new_token(), pin
        self._lock = threading.Lock()
        self._strangers: list[Stranger] = []
        self._admitted: tuple[Channel, dict[str, Any]] | None = None
        self._closed = False
        self._woken, self._wake = socket.socketpair()

    def invitation(self, address: str) -> Invitation:
        """Return the invitation for peers that know this machine by this address."""
        return Invitation(Endpoint(address, self._listener.getsockname()[1]), self._token, self._pin)

    def admit(self, within_s: float = VALID_S) -> tuple[Channel, dict[str, Any]]:
        """Return the channel of the first peer that shows the token, and the facts that it sent."""
        deadline = time.monotonic() + within_s
        while True:
            ready, _, _ = select.select([self._woken, self._listener], [], [], max(deadline - time.monotonic(), 0))
            if self._admitted is not None:
                return self._admitted
            if not ready:
                raise ExchangeError(
                    f"nobody typed the line within {within_s / 60:.0f} minutes: run `bicast init --far` again for a "
                    "new one"
                )
            with suppress(OSError):  # the peer has gone already
                raw, address = self._listener.accept()
                self._meet(raw, host_of(address[0]))

    def _meet(self, raw: socket.socket, host: str) -> None:
        tls = self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        stranger = Stranger(tls, host)
        with self._lock:
            self._strangers.append(stranger)
            evicted = superfluous(self._strangers, MOST_STRANGERS)
            if evicted is not None:
                self._strangers.remove(evicted)
                evicted.dismiss()
        threading.Thread(target=self._hear, args=(stranger,), daemon=True).start()

    def _hear(self, stranger: Stranger) -> None:
        """Read the token. Everything else ends the connection, without an answer."""
        channel = Channel(stranger.tls, stranger.host)
        try:
            right = self._is_right(stranger, channel)
        except (HostError, OSError, ValueError):
            right = False
        with self._lock:
            if stranger in self._strangers:
                self._strangers.remove(stranger)
        if not right:
            channel.close()

    def _is_right(self, stranger: Stranger, channel: Channel) -> bool:
        deadline = time.monotonic() + STRANGER_S
        stranger.tls.settimeout(STRANGER_S)
        stranger.tls.do_handshake()
        hello = channel.receive(deadline - time.monotonic(), MOST_HELLO_BYTES)
        shown = hello.pop("token", None)
        if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), self._token.encode()):
            return False
        with self._lock:
            if self._closed or self._admitted is not None:
                return False
            self._admitted = channel, hello
            if stranger in self._strangers:  # or it is evicted at this moment
                self._strangers.remove(stranger)
            self._wake.send(b"!")
        return True

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for stranger in self._strangers:
                stranger.dismiss()
            self._woken.close()
            self._wake.close()


@contextmanager
def reception(listen: Endpoint) -> Iterator[Reception]:
    """Listen with a certificate that exists only for this block."""
    certificate, context = _identity()
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        listener = socket.create_server((listen.host, listen.port), family=family, backlog=MOST_STRANGERS)
    except OSError as error:
        raise HostError(f"cannot listen at {listen} ({_why(error)}): end the program that uses this port") from error
    with listener:
        here = Reception(listener, context, pin_of(certificate))
        try:
            yield here
        finally:
            here.close()


def _identity() -> tuple[bytes, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bicast init")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=CLOCKS_DIFFER_S))
        .not_valid_after(now + timedelta(seconds=VALID_S + CLOCKS_DIFFER_S))
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # ssl reads files only; this one is in memory and has no name
    descriptor = os.memfd_create("bicast-init")
    with os.fdopen(descriptor, "wb") as file:
        file.write(private + made.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    return made.public_bytes(serialization.Encoding.DER), context


# Home's end


@contextmanager
def called(invited: Invitation, facts: Mapping[str, Any], within_s: float = STRANGER_S) -> Iterator[Channel]:
    """Connect to the far site, check its certificate, and only then send the token and the facts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the pin identifies the machine
    context.verify_mode = ssl.CERT_NONE
    try:
        raw = socket.create_connection((invited.where.host, invited.where.port), within_s)
    except OSError as error:
        raise ExchangeError(
            f"nothing answers at {invited.where} ({_why(error)}): is `bicast init --far` still waiting there, and does "
            f"the provider of that machine let TCP {invited.where.port} in?"
        ) from error
    with raw:
        try:
            tls = context.wrap_socket(raw)
        except OSError as error:
            raise ExchangeError(f"{invited.where} answers, but not as `bicast init --far`: {NEW_LINE}") from error
        with Channel(tls, str(invited.where)) as channel:
            if not invited.fits(tls.getpeercert(binary_form=True) or b""):
                raise ExchangeError(
                    f"{invited.where} is not the machine that printed this line: nothing was sent to it; {NEW_LINE}"
                )
            channel.send({**facts, "token": invited.token})
            yield channel


def _why(error: OSError) -> str:
    return error.strerror or str(error)
