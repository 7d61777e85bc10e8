# SPDX-License-Identifier: Apache-2.0
"""An agent over real TLS, with each message sent by the test."""

from __future__ import annotations

import queue
import select
import socket
import ssl
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from api import agent_pb2 as pb
from controller.model.settings import Endpoint

PATIENCE_S = 60.0  # for a busy machine; no test waits this long if all is well
HELLO = pb.FromAgent(
    hello=pb.Hello(
        protocol=1,
        version="of a test",
        role=pb.ROLE_RELAY,
        path_manager=pb.PATH_MANAGER_USERSPACE,
        addresses=["192.0.2.1", "2001:DB8::1"],
        capabilities=[pb.Capability(name="mptcp", available=True)],
    )
)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def request(name: str, key: ec.EllipticCurvePrivateKey) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


@dataclass(frozen=True)
class Identity:
    certificate: x509.Certificate
    ca: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    session: str


@dataclass(frozen=True)
class StreamStatus:
    """How a stream or a join ended."""

    cause: pb.End.Cause | None  # None: the connection ended without a reason
    said: str = ""


def delimited(message: bytes) -> bytes:
    length, left = bytearray(), len(message)
    while left >= 0x80:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*length, left)) + message


def received(connection: ssl.SSLSocket) -> bytes | None:
    """Return the next message, or None at the end."""

    def exactly(count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = connection.recv(count - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    try:
        length = shift = 0
        while (byte := exactly(1)[0]) >= 0x80:
            length, shift = length | (byte & 0x7F) << shift, shift + 7
        return exactly(length | byte << shift)
    except (OSError, EOFError):
        return None


def connected(address: Endpoint, ca_pem: bytes, identity: Identity | None = None) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=ca_pem.decode())
    if identity is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(key_pem(identity.key) + pem(identity.certificate))
            file.flush()
            context.load_cert_chain(file.name)
    plain = socket.create_connection((address.host, address.port), timeout=PATIENCE_S)
    return context.wrap_socket(plain, server_hostname="bicast-controller")


def join(
    address: Endpoint,
    ca_pem: bytes,
    name: str,
    token: str,
    asked: bytes | None = None,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Identity | StreamStatus:
    key = key or new_key()
    wish = pb.JoinRequest(
        name=name, token=token.partition(".")[0], signing_request=request(name, key) if asked is None else asked
    )
    with connected(address, ca_pem) as connection:
        connection.sendall(delimited(wish.SerializeToString()))
        raw = received(connection)
    if raw is None:
        return StreamStatus(None)
    answer = pb.JoinAnswer.FromString(raw)
    if answer.HasField("refused"):
        return StreamStatus(answer.refused.cause, answer.refused.reason)
    reply = answer.joined
    return Identity(
        x509.load_der_x509_certificate(reply.certificate), x509.load_der_x509_certificate(reply.ca), key, reply.session
    )


class Stream:
    """One session. Messages are sent at once, and received messages are kept in order."""

    def __init__(self, address: Endpoint, ca_pem: bytes, identity: Identity | None, reads: int | None) -> None:
        """`reads` limits the messages that are read; None reads all."""
        self._reads = reads
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._inbox: queue.SimpleQueue[pb.FromController | StreamStatus] = queue.SimpleQueue()
        self._connection = connected(address, ca_pem, identity)
        self._bell, self._rung = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say(self, word: pb.FromAgent | bytes) -> None:
        self._send(word if isinstance(word, bytes) else word.SerializeToString())

    def _send(self, message: bytes | None) -> None:
        self._outbox.put(message)
        self._bell.send(b"!")

    def any_word(self) -> pb.FromController | StreamStatus:
        return self._inbox.get(timeout=PATIENCE_S)

    def on_event(self) -> pb.FromController:
        word = self.any_word()
        assert isinstance(word, pb.FromController), word
        return word

    def ended(self) -> StreamStatus:
        """Return the end of the session, skipping earlier messages."""
        while not isinstance(word := self.any_word(), StreamStatus):
            pass
        return word

    def welcomed(self) -> Stream:
        self.say(HELLO)
        welcome = self.on_event()
        assert welcome.HasField("welcome"), welcome
        return self

    def report(self, sequence: int, *connections: pb.Connection) -> None:
        self.say(pb.FromAgent(report=pb.Report(sequence=sequence, interval_ms=1000, connections=connections)))

    def finish(self) -> None:
        """The agent stops."""
        self.say(pb.FromAgent(stopping=pb.Stopping()))

    def close(self) -> None:
        """End the connection without a word."""
        if self._bell.fileno() < 0:
            return
        self._send(None)
        with suppress(OSError):
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)  # the thread may wait for it
        self._thread.join()
        for each in (self._connection, self._bell, self._rung):
            each.close()

    def lost(self) -> None:
        """Wait until the connection has ended."""
        ends = select.poll()
        ends.register(self._connection, select.POLLRDHUP)  # poll(2) adds POLLHUP and POLLERR
        assert ends.poll(1000 * PATIENCE_S)

    def _run(self) -> None:
        """Send and receive in one thread: two may not use one object of OpenSSL."""
        left = self._reads
        with suppress(OSError):
            while True:
                wanted = [self._connection] if left is None or left > 0 else []
                pending = bool(wanted) and self._connection.pending() > 0
                ready, _, _ = select.select([self._rung, *wanted], [], [], 0 if pending else None)
                if self._rung in ready:
                    self._rung.recv(1)
                    message = self._outbox.get()
                    if message is None:
                        return
                    with suppress(OSError):  # the reason may be on its way
                        self._connection.sendall(delimited(message))
                elif pending or ready:
                    left = self._read(left)

    def _read(self, left: int | None) -> int | None:
        """Keep one message. Return how many more to read; None: all."""
        raw = received(self._connection)
        word = pb.FromController.FromString(raw) if raw is not None else None
        if word is None or word.HasField("end"):
            self._inbox.put(StreamStatus(word.end.cause, word.end.reason) if word is not None else StreamStatus(None))
            return 0
        self._inbox.put(word)
        return left and left - 1


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
