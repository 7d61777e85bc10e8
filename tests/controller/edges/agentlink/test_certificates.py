# SPDX-License-Identifier: Apache-2.0
"""Certificates decide which agents are admitted. Each refusal is logged with the peer and counted."""

from __future__ import annotations

import socket
import subprocess
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.edges.trust import refusals
from controller.protocol.enrolment import EnrolmentState, UnknownAgent
from controller.protocol.reports import AgentClosed, AgentOpened
from tests.controller.edges.agentlink.agent import PATIENCE_S, Identity, StreamStatus, new_key
from tests.controller.edges.agentlink.house import FakeController
from tests.controller.edges.agentlink.log import Log, refused

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED


def test_ca_is_in_the_chain_and_the_name_is_the_controllers(house: FakeController) -> None:
    """The check uses openssl, which did not make the certificates."""
    ca = house.directory.parent / "ca.pem"
    ca.write_bytes(house.ca_pem)
    told = subprocess.run(
        f"openssl s_client -connect {house.agents.join} -alpn h2 -showcerts -verify_hostname bicast-controller"
        f" -x509_strict -verify_return_error -CAfile {ca}".split(),
        input="",
        capture_output=True,
        encoding="latin-1",  # HTTP/2 frames may already be there
    ).stdout
    assert "Verification: OK" in told and "ALPN protocol: h2" in told and "TLSv1.3" in told
    assert house.ca_pem.decode().strip() in told


def test_certificate_is_for_this_name_and_clients_only(house: FakeController) -> None:
    identity = house.enrolled("phone")
    made = identity.certificate
    made.verify_directly_issued_by(identity.ca)
    assert [each.value for each in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["phone"]
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert identity.session == f":{house.agents.listen.port}", "at the host of the join listener"


def signed_by_another_ca(name: str) -> Identity:
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


def signed_by_our_ca(house: FakeController, purpose: x509.ObjectIdentifier, ended: timedelta) -> Identity:
    """Return a certificate that only the CA's own key can sign."""
    kept = (house.directory / "ca.pem").read_bytes()
    by = serialization.load_pem_private_key(kept, None)
    assert isinstance(by, ec.EllipticCurvePrivateKey)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phone")])
    return _signed(x509.load_pem_x509_certificate(kept).subject, subject, new_key(), by, purpose, ended)


def test_certificate_of_another_ca_is_refused(house: FakeController, log: Log) -> None:
    house.enrolled("phone")
    stream = house.stream(signed_by_another_ca("phone"))
    assert stream.ended().code is grpc.StatusCode.UNAVAILABLE
    assert "its certificate was not issued by this controller (" in refused(house, log, "handshake")
    assert house.quiet()


def test_peer_without_a_certificate_is_refused(house: FakeController, log: Log) -> None:
    assert house.stream(None).ended().code is grpc.StatusCode.UNAVAILABLE
    assert "TLS handshake" in refused(house, log, "handshake")


@pytest.mark.parametrize(
    ("purpose", "ended"),
    [
        (ExtendedKeyUsageOID.SERVER_AUTH, timedelta(days=-1)),  # the controller's own, stolen
        (ExtendedKeyUsageOID.CLIENT_AUTH, timedelta(days=1)),  # expired yesterday
    ],
)
def test_certificate_with_a_wrong_purpose_or_time_is_refused(
    house: FakeController, log: Log, purpose: x509.ObjectIdentifier, ended: timedelta
) -> None:
    stream = house.stream(signed_by_our_ca(house, purpose, ended))
    assert stream.ended().code is grpc.StatusCode.UNAVAILABLE
    refused(house, log, "handshake")


def test_certificate_outside_the_ledger_is_refused(house: FakeController, log: Log) -> None:
    ended = house.stream(signed_by_our_ca(house, ExtendedKeyUsageOID.CLIENT_AUTH, timedelta(days=-1))).ended()
    assert ended.code is DENIED and "ledger that is lost" in ended.said
    refused(house, log, "revoked")


@pytest.mark.parametrize("door", ["listen", "join"])
def test_peer_without_tls_is_refused(house: FakeController, log: Log, door: str) -> None:
    at = getattr(house.agents, door)
    with socket.create_connection((at.host, at.port), timeout=PATIENCE_S) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert "TLS handshake" in refused(house, log, "handshake")


# Revocation


def test_revocation_ends_the_stream_and_refuses_the_certificate(house: FakeController, log: Log) -> None:
    identity = house.enrolled("phone")
    stream, opened = house.served(identity)
    answer = house.agents.revoke("phone")
    assert answer.changed and "phone is revoked" in answer.done[0]
    assert stream.ended().code is DENIED
    assert house.closed() == AgentClosed(opened.session, "the certificate of phone was revoked")
    ended = house.stream(identity).ended()
    assert ended.code is DENIED and "was revoked: " in ended.said and "bicast enroll phone" in ended.said
    house.again()
    assert house.stream(identity).ended().code is DENIED, "a restart changes nothing"
    refused(house, log, "revoked")


def test_revoked_agent_that_retries_is_logged_once_and_shown(
    house: FakeController, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "QUIET_S", 0.0)  # every other refusal is logged
    identity = house.enrolled("phone")
    (before,) = house.agents.enrolled()
    assert (before.standing, before.tried_at) == (EnrolmentState.AWAY, None)
    house.agents.revoke("phone")
    for _ in range(3):
        assert house.stream(identity).ended().code is DENIED
    told = log.get(timeout=PATIENCE_S).getMessage()
    assert "`bicast enroll phone`" in told and "until it is stopped; the next message follows in 60 min" in told
    assert log.empty() and house.agents.refusals()["revoked"] == 3
    (after,) = house.agents.enrolled()
    assert after.standing is EnrolmentState.REVOKED and after.revoked_at is not None
    assert after.tried_at is not None and after.tried_at >= after.revoked_at
    assert after.tried_from is not None and after.tried_from.startswith("127.0.0.1:")


def test_enrolment_goes_from_invited_to_connected_and_away(house: FakeController) -> None:
    def standing() -> EnrolmentState:
        return house.agents.enrolled()[0].standing

    house.agents.invite("phone")
    assert standing() is EnrolmentState.INVITED
    stream, _ = house.served(house.enrolled("phone"))
    assert standing() is EnrolmentState.CONNECTED
    house.agents.revoke("phone")
    stream.ended()
    house.agents.invite("phone")
    assert standing() is EnrolmentState.REVOKED, "until it has joined again"
    house.enrolled("phone")
    assert standing() is EnrolmentState.AWAY


def test_repeated_or_unknown_revocation_is_reported(house: FakeController) -> None:
    house.enrolled("phone")
    assert house.agents.revoke("phone").changed
    again = house.agents.revoke("phone")
    assert again.done == ("phone is already revoked",) and not again.changed
    with pytest.raises(UnknownAgent, match="there are: phone"):
        house.agents.revoke("laptop")


def test_revocation_covers_an_unused_token(house: FakeController, log: Log) -> None:
    token = house.agents.invite("phone").token
    house.agents.revoke("phone")
    assert isinstance(house.join("phone", token), StreamStatus)
    refused(house, log, "token_unknown")


def test_reenrolled_agent_needs_its_new_certificate(house: FakeController) -> None:
    old = house.enrolled("phone")
    house.agents.revoke("phone")
    new = house.enrolled("phone")
    assert house.stream(old).ended().code is DENIED
    house.served(new)


def test_older_certificate_counts_until_the_newer_is_used(house: FakeController, log: Log) -> None:
    """The answer with the newer certificate may be lost in transit."""
    old, new = house.enrolled("phone"), house.enrolled("phone")
    stream, _ = house.served(old)
    newer = house.stream(new).welcomed()
    assert stream.ended().code is DENIED, "at once, although it is alive"
    house.closed()
    assert house.event(AgentOpened).name == "phone"
    ended = house.stream(old).ended()
    assert ended.code is DENIED and "a newer certificate" in ended.said
    refused(house, log, "replaced")
    newer.finish()
