# SPDX-License-Identifier: Apache-2.0
"""An agent over real TLS, with each message sent by the test."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from itertools import islice

import grpc
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
    code: grpc.StatusCode
    said: str


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
    with channel_to(str(address), ca_pem) as channel:
        call = channel.unary_unary(
            "/bicast.agent.v1.Enrolment/Join", pb.JoinRequest.SerializeToString, pb.JoinReply.FromString
        )
        try:
            reply = call(wish, timeout=PATIENCE_S)
        except grpc.RpcError as error:
            return StreamStatus(error.code(), error.details())
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
        self._channel = channel_to(str(address), ca_pem, identity)
        self._connected, self._lost = False, threading.Event()
        self._channel.subscribe(self._see)
        self._call = self._channel.stream_stream("/bicast.agent.v1.Agents/Session", None, pb.FromController.FromString)(
            iter(self._outbox.get, None)
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def say(self, word: pb.FromAgent | bytes) -> None:
        self._outbox.put(word if isinstance(word, bytes) else word.SerializeToString())

    def any_word(self) -> pb.FromController | StreamStatus:
        return self._inbox.get(timeout=PATIENCE_S)

    def on_event(self) -> pb.FromController:
        word = self.any_word()
        assert isinstance(word, pb.FromController), word
        return word

    def ended(self) -> StreamStatus:
        """Return the status of the session's end, skipping earlier messages."""
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
        """The agent closes its sending side."""
        self._outbox.put(None)

    def close(self) -> None:
        self._call.cancel()
        self._outbox.put(None)
        self._reader.join()
        self._channel.close()

    def lost(self) -> None:
        """Wait until the connection ends, and not only the stream in it."""
        assert self._lost.wait(PATIENCE_S)

    def _see(self, state: grpc.ChannelConnectivity) -> None:
        ready = state is grpc.ChannelConnectivity.READY
        if self._connected and not ready:
            self._lost.set()
        self._connected = self._connected or ready

    def _read(self) -> None:
        try:
            for word in islice(self._call, self._reads):
                self._inbox.put(word)
        except grpc.RpcError:
            pass
        if self._reads is None:
            self._inbox.put(StreamStatus(self._call.code(), self._call.details()))


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def channel_to(address: str, ca_pem: bytes, identity: Identity | None = None) -> grpc.Channel:
    own = (key_pem(identity.key), pem(identity.certificate)) if identity else (None, None)
    options = [
        ("grpc.ssl_target_name_override", "bicast-controller"),
        ("grpc.use_local_subchannel_pool", 1),  # a connection of its own for each channel
        ("grpc.enable_retries", 0),
        ("grpc.max_send_message_length", -1),
    ]
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca_pem, *own), options)
