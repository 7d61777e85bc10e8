"""Who may come in: the authority's signature and the ledger's word together."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from controller.agency.authority import DER, Authority, binding_of, name_of, serial_of
from controller.agency.ledger import Ledger, check_name
from controller.agency.records import Issued
from controller.agency.refusals import AgencyError
from controller.binding import Binding

SECRET_BYTES = 16
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Invitation:
    name: str
    token: str  # SECRET.PIN of api/agent.proto
    until: float  # Unix seconds


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate that our authority has signed; whether it counts is the ledger's to say."""

    name: str
    serial: str
    key: bytes  # SubjectPublicKeyInfo, DER
    binding: Binding | None  # None: it is from before there were roles


class Trust:
    def __init__(self, directory: str) -> None:
        self._authority = Authority(Path(directory))
        self.ledger = Ledger(Path(directory) / "ledger.json", self._authority.new)
        self._of_this_start = secrets.token_bytes(KEY_BYTES)

    def invite(self, name: str, binding: Binding) -> Invitation:
        secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode().lower().rstrip("=")
        until = self.ledger.enrol(name, secret, binding)
        return Invitation(name, f"{secret}.{self._authority.pin}", until)

    def join(self, name: str, secret: str, request: bytes) -> tuple[bytes, bytes]:
        """The agent's certificate and the CA's, in DER."""
        made: list[x509.Certificate] = []

        def issue(binding: Binding) -> Issued:
            made.append(self._authority.sign(name, request, binding))
            one = made[0]
            times = one.not_valid_before_utc.timestamp(), one.not_valid_after_utc.timestamp()
            return Issued(serial_of(one), *times, binding, _digest(one), hashlib.sha256(_key_of(one)).hexdigest())

        check_name(name)
        self.ledger.redeem(name, secret, issue)
        return made[0].public_bytes(DER), self._authority.der

    def relays(self, agent: Shown) -> bytes:
        """The certificate, in DER, by which this agent is a relay."""
        key = serialization.load_der_public_key(agent.key)
        assert isinstance(key, ec.EllipticCurvePublicKey), "our authority signs no other keys"
        return self._authority.sign_relays(agent.name, key).public_bytes(DER)

    def key(self, vni: int, ends: Iterable[bytes]) -> bytes:
        """The secret of a tunnel's two ends. It is the same after a restart, and another one as soon as the certificate
        of either end (`ends`: their SHA-256) is another: the key of an agent that was revoked is worth nothing."""
        return self._authority.derived(f"tunnel {vni} of {' '.join(each.hex() for each in ends)}".encode())

    def meeting_key(self, meeting: int) -> bytes:
        """By which two agents that measure know each other: of no other meeting, and of none after a restart."""
        return hmac.digest(self._of_this_start, f"meeting {meeting}".encode(), "sha256")

    def for_joining(self) -> ssl.SSLContext:
        """Strangers come here, and are told who we are."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols(["h2"])
        context.num_tickets = 0  # each connection shows its certificate anew
        try:
            with _in_memory(self._authority.controllers) as path:
                context.load_cert_chain(path)
        except (OSError, ssl.SSLError) as error:
            raise AgencyError(f"our own certificate cannot be used, though it was just made: {error}") from error
        return context

    def for_sessions(self) -> ssl.SSLContext:
        """Nobody comes in here without a certificate of our authority, made for a client."""
        context = self.for_joining()
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self._authority.pem)
        return context


def shown(certificate: bytes) -> Shown:
    parsed = x509.load_der_x509_certificate(certificate)
    return Shown(name_of(parsed), serial_of(parsed), _key_of(parsed), binding_of(parsed))


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path under which this process reads `content`: `ssl` takes a key from a file only, and a disk may be full."""
    with os.fdopen(os.memfd_create("bicast"), "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{file.fileno()}"


def _key_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _digest(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()
