# SPDX-License-Identifier: Apache-2.0
"""The certificate authority of the agents, and the decision who may connect.

                     ca.pem  (key and certificate)
           ┌────────────┴─────────────┐
    the controller's              an agent's: its key stays with it, so only its
    (key, certificate, the CA's;  certificate is made here; and another one for the
    new at each start, and        same key, by which it is a relay
    never on a disk)

A certificate states its purpose, so that an agent's stolen key cannot play the controller.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import secrets
import ssl
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.edges.trust import ledger
from controller.edges.trust.ledger import Issued, Ledger, check_name
from controller.edges.trust.refusals import AgencyError, Reason, Refused
from controller.protocol.enrolment import CONTROLLER, Binding, parsed

log = logging.getLogger(__name__)

# No certificate begins or ends by a clock (RFC 5280, 4.1.2.5): a machine without a battery may be years away from the
# others. The ledger ends them.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

PEM = serialization.Encoding.PEM
DER = serialization.Encoding.DER


class Authority:
    def __init__(self, directory: Path) -> None:
        path = directory / "ca.pem"
        content = ledger.read_file(path)
        if content is not None and path.stat().st_mode & stat.S_IRWXO:
            raise AgencyError(
                f"{path} holds the key that signs for agents, and every user of this machine can read it: `chmod o= "
                f"{path}`; if somebody may have read it, move it away and let each agent join again"
            )
        self.new = content is None  # it has signed nothing yet
        self._key, self._certificate = _made(path) if content is None else _parsed(path, content)
        self.controllers = self._controllers()  # PEM

    @property
    def pem(self) -> str:
        return self._certificate.public_bytes(PEM).decode()

    @property
    def der(self) -> bytes:
        return self._certificate.public_bytes(DER)

    @property
    def pin(self) -> str:
        """Return the CA certificate's SHA-256 in base32, which a joining agent checks (api/agent.proto)."""
        return base64.b32encode(hashlib.sha256(self.der).digest()).decode().lower().rstrip("=")

    def derived(self, purpose: bytes) -> bytes:
        """Derive a 32-byte secret from the CA key. It reveals neither the key nor other secrets."""
        raw = self._key.private_bytes(DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return HKDF(hashes.SHA256(), length=32, salt=None, info=b"bicast " + purpose).derive(raw)

    def sign(self, name: str, key: ec.EllipticCurvePublicKey, binding: Binding) -> x509.Certificate:
        """Sign an agent's certificate."""
        leaf = self._leaf(name, key, ExtendedKeyUsageOID.CLIENT_AUTH)
        role = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(binding.uri)])
        return leaf.add_extension(role, critical=False).sign(self._key, hashes.SHA256())

    def sign_relays(self, name: str, key: ec.EllipticCurvePublicKey) -> x509.Certificate:
        """Sign a relay's server certificate. Gateways accept it while its key is in their orders."""
        assert name != CONTROLLER, "no agent may have the controller's name"
        return self._server(name, key)

    def _controllers(self) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._server(CONTROLLER, key.public_key())
        return _key_pem(key) + certificate.public_bytes(PEM) + self._certificate.public_bytes(PEM)

    def _server(self, name: str, key: ec.EllipticCurvePublicKey) -> x509.Certificate:
        leaf = self._leaf(name, key, ExtendedKeyUsageOID.SERVER_AUTH)
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        return leaf.add_extension(names, critical=False).sign(self._key, hashes.SHA256())

    def _leaf(
        self, name: str, key: ec.EllipticCurvePublicKey, purpose: x509.ObjectIdentifier
    ) -> x509.CertificateBuilder:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            _builder(name, self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
        )


def requested_key(name: str, request: bytes) -> ec.EllipticCurvePublicKey:
    """Return a signing request's key. Raise Refused unless it is self-signed and for exactly this name."""
    try:
        signing_request = x509.load_der_x509_csr(request)
        key, signed = signing_request.public_key(), signing_request.is_signature_valid
        names = [each.value for each in signing_request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Refused(Reason.REQUEST, "the signing request cannot be decoded: expected PKCS #10 in DER") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Refused(Reason.REQUEST, "the signing request is for another kind of key: expected ECDSA P-256")
    if not signed:
        raise Refused(Reason.REQUEST, "the signing request is not signed with its own key")
    if names != [name]:
        shown = ", ".join(repr(str(each))[:80] for each in names) or "nobody"
        raise Refused(Reason.REQUEST, f"the signing request is for {shown}: expected {name!r}, once")
    return key


def serial_of(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:040x}"


def name_of(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def binding_of(certificate: x509.Certificate) -> Binding | None:
    """Return the role in a certificate. None: it is older than roles."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    found = [parsed(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    return found[0] if len(found) == 1 else None


def _made(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = "CA of a bicast controller's agents"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(name, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    ledger.replace_file(path, _key_pem(key) + certificate.public_bytes(PEM))
    return key, certificate


def _parsed(path: Path, content: bytes) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    try:
        key = serialization.load_pem_private_key(content, password=None)
        certificate = x509.load_pem_x509_certificate(content)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
            raise ValueError("the key belongs to another certificate")
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise AgencyError(
            f"{path} does not hold the agents' CA ({error}): restore it, or move it away to start over; "
            "then all agents must join again"
        ) from None
    return key, certificate


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(EARLIEST)
        .not_valid_after(LATEST)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


# Admission of agents, by signature and ledger

SECRET_BYTES = 16
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Invitation:
    name: str
    token: str  # SECRET.PIN of api/agent.proto
    until: float  # Unix seconds


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate of our authority. The ledger decides whether it is valid."""

    name: str
    serial: str
    key: bytes  # SubjectPublicKeyInfo, DER
    binding: Binding | None  # None: older than roles

    @property
    def public_key(self) -> ec.EllipticCurvePublicKey:
        key = serialization.load_der_public_key(self.key)
        assert isinstance(key, ec.EllipticCurvePublicKey), "this authority signs only elliptic-curve keys"
        return key


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
        """Use up a token. Return the agent's certificate and the CA's, in DER."""
        made: list[x509.Certificate] = []
        check_name(name)
        self.ledger.redeem(
            name, secret, lambda binding: self._issued(name, requested_key(name, request), binding, made)
        )
        return made[0].public_bytes(DER), self._authority.der

    def renewed(self, agent: Shown) -> bytes | None:
        """Return a new certificate for the agent's key if the one that it shows is old."""
        made: list[x509.Certificate] = []
        self.ledger.renew(agent.name, agent.serial, lambda its: self._issued(agent.name, agent.public_key, its, made))
        return made[0].public_bytes(DER) if made else None

    def _issued(
        self, name: str, key: ec.EllipticCurvePublicKey, binding: Binding, made: list[x509.Certificate]
    ) -> Issued:
        made.append(self._authority.sign(name, key, binding))
        digest = hashlib.sha256(_key_of(made[0])).hexdigest()
        return Issued(serial_of(made[0]), time.time(), 0.0, binding, digest)

    def relays(self, agent: Shown) -> bytes:
        return self._authority.sign_relays(agent.name, agent.public_key).public_bytes(DER)

    def key(self, vni: int, keys: Iterable[bytes]) -> bytes:
        """Return the secret of a tunnel's two ends, also after a restart.

        It depends on both agents' public keys (SHA-256), so a revoked agent's tunnel key is useless once its site has
        joined again: each join makes a new key.
        """
        return self._authority.derived(f"tunnel {vni} of {' '.join(each.hex() for each in keys)}".encode())

    def meeting_key(self, meeting: int) -> bytes:
        """Return the key of two agents for one measurement. A restart changes it."""
        return hmac.digest(self._of_this_start, f"meeting {meeting}".encode(), "sha256")

    def for_joining(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # no resumption: each connection shows its certificate
        try:
            with _in_memory(self._authority.controllers) as path:
                context.load_cert_chain(path)
        except (OSError, ssl.SSLError) as error:
            raise AgencyError(f"the controller's new certificate cannot be used: {error}") from error
        return context

    def for_sessions(self) -> ssl.SSLContext:
        context = self.for_joining()
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self._authority.pem)
        return context


def shown(certificate: bytes) -> Shown:
    parsed = x509.load_der_x509_certificate(certificate)
    return Shown(name_of(parsed), serial_of(parsed), _key_of(parsed), binding_of(parsed))


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yield a path to `content` in memory: `ssl` loads a key only from a file, and a disk may be full."""
    with os.fdopen(os.memfd_create("bicast"), "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{file.fileno()}"


def _key_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _digest(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()
