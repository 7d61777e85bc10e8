"""Who comes in, and who does not: each attack is refused, logged with the peer, and counted."""

from __future__ import annotations

import base64
import hashlib
import logging
import logging.handlers
import queue
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.agency import ledger as the_ledger
from controller.agency import refusals
from controller.agency.authority import Authority
from controller.agency.refusals import AgencyError
from controller.agents import Agents
from controller.enrolling import UnknownAgent
from controller.model import AgentService
from controller.reports import AgentClosed, AgentOpened
from controller.wishes import Impossible
from tests.agents.agent import PATIENCE_S, Ended, Identity, new_key, request
from tests.agents.house import ANYWHERE, House

Log = queue.SimpleQueue[logging.LogRecord]


@pytest.fixture
def log() -> Iterator[Log]:
    """What is told of refusals, as soon as it is."""
    lines: Log = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(lines)  # type: ignore[arg-type]
    logging.getLogger(refusals.__name__).addHandler(handler)
    yield lines
    logging.getLogger(refusals.__name__).removeHandler(handler)


UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED


def refused(house: House, log: Log, reason: str) -> str:
    """It was refused once, and counted under that reason alone; the log's line, which names the peer."""
    line = log.get(timeout=PATIENCE_S).getMessage()
    assert " refused: " in line and "from 127.0.0.1:" in line
    assert {each: number for each, number in house.agents.refusals().items() if number} == {reason: 1}
    return line


def test_a_token_says_whom_to_trust_and_is_kept_as_its_hash_alone(house: House) -> None:
    invited = house.agents.invite("phone")
    secret, _, pin = invited.token.partition(".")
    assert len(base64.b32decode(secret.upper() + "======")) == 16
    ca = x509.load_pem_x509_certificate(house.ca_pem).public_bytes(serialization.Encoding.DER)
    assert pin == base64.b32encode(hashlib.sha256(ca).digest()).decode().lower().rstrip("=")
    assert invited.join == str(house.agents.join)
    kept = (house.directory / "ledger.json").read_text()
    assert secret not in kept and hashlib.sha256(secret.encode()).hexdigest() in kept


def test_what_is_kept_is_only_the_controllers(house: House) -> None:
    house.enrolled("phone")
    assert {each.name for each in house.directory.iterdir()} == {"ca.pem", "controller.pem", "ledger.json"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in house.directory.iterdir()} == {0o600}
    assert stat.S_IMODE(house.directory.stat().st_mode) == 0o700


def test_the_ca_comes_in_the_chain_and_the_name_is_the_controllers(house: House) -> None:
    """By openssl, which has no part in making them."""
    ca = house.directory.parent / "ca.pem"
    ca.write_bytes(house.ca_pem)
    told = subprocess.run(
        f"openssl s_client -connect {house.agents.join} -alpn h2 -showcerts -verify_hostname bicast-controller"
        f" -x509_strict -verify_return_error -CAfile {ca}".split(),
        input="",
        capture_output=True,
        text=True,
    ).stdout
    assert "Verification: OK" in told and "ALPN protocol: h2" in told and "TLSv1.3" in told
    assert house.ca_pem.decode().strip() in told


def test_a_certificate_is_for_this_name_and_for_clients_alone(house: House) -> None:
    identity = house.enrolled("phone")
    made = identity.certificate
    made.verify_directly_issued_by(identity.ca)
    assert [each.value for each in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["phone"]
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert identity.session == f":{house.agents.listen.port}", "at the host that was asked"


# Tokens


def test_a_token_is_good_once(house: House, log: Log) -> None:
    token = house.agents.invite("phone").token
    assert isinstance(house.join("phone", token), Identity)
    replayed = house.join("phone", token)
    assert isinstance(replayed, Ended) and replayed.code is UNAUTHENTICATED and "was used before" in replayed.said
    assert "'phone'" in refused(house, log, "token_used")


def test_of_many_who_come_with_one_token_at_once_one_gets_in(house: House) -> None:
    token = house.agents.invite("phone").token
    outcomes: list[Identity | Ended] = []
    racers = [threading.Thread(target=lambda: outcomes.append(house.join("phone", token))) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sum(isinstance(each, Identity) for each in outcomes) == 1 and len(outcomes) == 8


def test_a_token_outlives_a_restart_and_its_use_does_too(house: House) -> None:
    token = house.agents.invite("phone").token
    house.again()
    assert isinstance(house.join("phone", token), Identity)
    house.again()
    assert isinstance(house.join("phone", token), Ended)


def test_a_token_ends_after_a_quarter_of_an_hour(house: House, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(the_ledger, "TOKEN_LIVES_S", -1)
    ended = house.join("phone", house.agents.invite("phone").token)
    assert isinstance(ended, Ended) and ended.code is UNAUTHENTICATED and "too old" in ended.said
    refused(house, log, "token_old")


def test_a_token_is_for_one_name_and_stays_good_for_it(house: House, log: Log) -> None:
    token = house.agents.invite("phone").token
    ended = house.join("laptop", token)
    assert isinstance(ended, Ended) and ended.code is UNAUTHENTICATED and "for another name" in ended.said
    refused(house, log, "token_of_another")
    assert isinstance(house.join("phone", token), Identity)


def test_a_token_that_was_never_made_is_refused(house: House, log: Log) -> None:
    ended = house.join("phone", "a" * 26)
    assert isinstance(ended, Ended) and ended.code is UNAUTHENTICATED
    refused(house, log, "token_unknown")


def test_a_new_token_ends_the_one_before(house: House) -> None:
    old, new = house.agents.invite("phone").token, house.agents.invite("phone").token
    assert isinstance(house.join("phone", old), Ended)
    assert isinstance(house.join("phone", new), Identity)


@pytest.mark.parametrize("name", ["", "Phone", "-phone", "a" * 64, "phone\n", "té", "../phone"])
def test_a_name_that_no_agent_may_have_is_refused_everywhere(house: House, name: str, log: Log) -> None:
    with pytest.raises(Impossible, match="no name of an agent"):
        house.agents.invite(name)
    ended = house.join(name, "a" * 26, asked=request("phone", new_key()))
    assert isinstance(ended, Ended) and ended.code is grpc.StatusCode.INVALID_ARGUMENT
    refused(house, log, "name")


# Signing requests


def bent(request: bytes) -> bytes:
    return request[:-1] + bytes([request[-1] ^ 1])


def of_rsa() -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phone")])
    key = rsa.generate_private_key(65537, 2048)
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


def of_two_names() -> bytes:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, each) for each in ("phone", "relay")]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(new_key(), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (request("relay", new_key()), "is for 'relay': expected 'phone'"),
        (of_two_names(), "is for 'phone', 'relay': expected 'phone'"),
        (bent(request("phone", new_key())), "not signed with its own key"),
        (of_rsa(), "expected ECDSA P-256"),
        (b"", "PKCS #10"),
        (b"\x30\x03\x02\x01\x00", "PKCS #10"),
    ],
)
def test_a_signing_request_that_is_no_good_leaves_the_token_good(
    house: House, log: Log, asked: bytes, says: str
) -> None:
    token = house.agents.invite("phone").token
    ended = house.join("phone", token, asked=asked)
    assert isinstance(ended, Ended) and ended.code is grpc.StatusCode.INVALID_ARGUMENT and says in ended.said
    refused(house, log, "request")
    assert isinstance(house.join("phone", token), Identity)


def test_a_request_for_more_than_an_agent_gets_gets_no_more(house: House) -> None:
    key = new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phone")])
    greedy = x509.CertificateSigningRequestBuilder().subject_name(name)
    greedy = greedy.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    greedy = greedy.add_extension(x509.SubjectAlternativeName([x509.DNSName("bicast-controller")]), critical=False)
    asked = greedy.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    identity = house.join("phone", house.agents.invite("phone").token, asked=asked)
    assert isinstance(identity, Identity)
    assert not identity.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    with pytest.raises(x509.ExtensionNotFound):
        identity.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)


# Certificates


def signed_by_nobody_we_know(name: str) -> Identity:
    key = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return _signed(subject, subject, key, key, ExtendedKeyUsageOID.CLIENT_AUTH)


def _signed(
    issuer: x509.Name,
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    purpose: x509.ObjectIdentifier,
    ended: timedelta = timedelta(days=-1),
) -> Identity:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now - ended)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .sign(by, hashes.SHA256())
    )
    return Identity(made, made, key, "")


def of_our_authority(house: House, purpose: x509.ObjectIdentifier, ended: timedelta) -> Identity:
    """What only the CA's own key could make."""
    kept = (house.directory / "ca.pem").read_bytes()
    by = serialization.load_pem_private_key(kept, None)
    assert isinstance(by, ec.EllipticCurvePrivateKey)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phone")])
    return _signed(x509.load_pem_x509_certificate(kept).subject, subject, new_key(), by, purpose, ended)


def test_a_strangers_certificate_is_refused(house: House, log: Log) -> None:
    house.enrolled("phone")
    stream = house.stream(signed_by_nobody_we_know("phone"))
    assert stream.ended().code is grpc.StatusCode.UNAVAILABLE
    assert "its certificate is not one of ours (" in refused(house, log, "handshake")
    assert house.quiet()


def test_who_shows_no_certificate_is_refused(house: House, log: Log) -> None:
    assert house.stream(None).ended().code is grpc.StatusCode.UNAVAILABLE
    assert "TLS handshake" in refused(house, log, "handshake")


@pytest.mark.parametrize(
    ("purpose", "ended"),
    [
        (ExtendedKeyUsageOID.SERVER_AUTH, timedelta(days=-1)),  # the controller's own, stolen
        (ExtendedKeyUsageOID.CLIENT_AUTH, timedelta(days=1)),  # over since yesterday
    ],
)
def test_a_certificate_for_something_else_or_some_other_time_is_refused(
    house: House, log: Log, purpose: x509.ObjectIdentifier, ended: timedelta
) -> None:
    stream = house.stream(of_our_authority(house, purpose, ended))
    assert stream.ended().code is grpc.StatusCode.UNAVAILABLE
    refused(house, log, "handshake")


def test_a_certificate_that_is_not_in_the_ledger_is_refused_whoever_signed_it(house: House, log: Log) -> None:
    stream = house.stream(of_our_authority(house, ExtendedKeyUsageOID.CLIENT_AUTH, timedelta(days=-1)))
    assert stream.ended().code is DENIED
    refused(house, log, "revoked")


@pytest.mark.parametrize("door", ["listen", "join"])
def test_who_does_not_speak_tls_is_refused(house: House, log: Log, door: str) -> None:
    at = getattr(house.agents, door)
    with socket.create_connection((at.host, at.port), timeout=PATIENCE_S) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert "TLS handshake" in refused(house, log, "handshake")


# Revoking


def test_revoking_ends_the_stream_at_once_and_refuses_the_certificate_from_then_on(house: House, log: Log) -> None:
    identity = house.enrolled("phone")
    stream, opened = house.served(identity)
    answer = house.agents.revoke("phone")
    assert answer.changed and "phone is revoked" in answer.done[0]
    assert stream.ended().code is DENIED
    assert house.closed() == AgentClosed(opened.session, "the certificate of phone was revoked")
    ended = house.stream(identity).ended()
    assert ended.code is DENIED and "was revoked" in ended.said and "bicast enroll phone" in ended.said
    house.again()
    assert house.stream(identity).ended().code is DENIED, "a restart changes nothing"
    refused(house, log, "revoked")


def test_revoking_twice_is_said_and_an_unknown_name_too(house: House) -> None:
    house.enrolled("phone")
    assert house.agents.revoke("phone").changed
    again = house.agents.revoke("phone")
    assert again.done == ("phone is already revoked",) and not again.changed
    with pytest.raises(UnknownAgent, match="there are: phone"):
        house.agents.revoke("laptop")


def test_revoking_reaches_a_token_that_was_not_used_yet(house: House, log: Log) -> None:
    token = house.agents.invite("phone").token
    house.agents.revoke("phone")
    assert isinstance(house.join("phone", token), Ended)
    refused(house, log, "token_unknown")


def test_who_is_revoked_and_enrolled_again_is_served_with_the_new_certificate_alone(house: House) -> None:
    old = house.enrolled("phone")
    house.agents.revoke("phone")
    new = house.enrolled("phone")
    assert house.stream(old).ended().code is DENIED
    house.served(new)


def test_of_two_certificates_of_a_name_the_older_counts_until_the_newer_was_used(house: House, log: Log) -> None:
    """The answer that carries the newer may be lost on its way."""
    old, new = house.enrolled("phone"), house.enrolled("phone")
    stream, _ = house.served(old)
    newer = house.stream(new).welcomed()
    assert stream.ended().code is DENIED, "at once, though it lives"
    house.closed()
    assert house.event(AgentOpened).name == "phone"
    ended = house.stream(old).ended()
    assert ended.code is DENIED and "a newer certificate" in ended.said
    refused(house, log, "replaced")
    newer.finish()


def test_a_revoked_agent_loses_its_connection_too(house: House) -> None:
    identity = house.enrolled("phone")
    stream, _ = house.served(identity)
    house.agents.revoke("phone")
    house.closed()
    stream.lost()


# What is kept


@pytest.mark.parametrize("name", ["ca.pem", "ledger.json"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"{}", b'{"version": 9, "agents": {}}', b"\xff"])
def test_what_is_damaged_is_named_and_not_begun_anew(house: House, name: str, content: bytes) -> None:
    identity = house.enrolled("phone")
    path = house.directory / name
    good = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(AgencyError, match=f"{name} does not hold"):
        Agents(AgentService(ANYWHERE, ANYWHERE, str(house.directory)), lambda *_: None)
    path.write_bytes(good)
    house.again()
    house.served(identity)


def test_a_token_that_cannot_be_kept_is_none(house: House) -> None:
    (house.directory / "ledger.json.new").mkdir()
    with pytest.raises(Impossible, match="cannot be written"):
        house.agents.invite("phone")
    assert house.agents.enrolled() == ()


def test_a_joining_that_cannot_be_kept_leaves_the_token_good(house: House) -> None:
    token = house.agents.invite("phone").token
    beside = house.directory / "ledger.json.new"
    beside.mkdir()
    ended = house.join("phone", token)
    assert isinstance(ended, Ended) and ended.code is grpc.StatusCode.UNAVAILABLE
    beside.rmdir()
    assert isinstance(house.join("phone", token), Identity)


def test_the_authority_stays_who_it_is(house: House) -> None:
    assert Authority(house.directory).pin == Authority(house.directory).pin
