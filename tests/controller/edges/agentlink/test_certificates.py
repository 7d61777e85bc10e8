# SPDX-License-Identifier: Apache-2.0
"""Certificates decide which agents are admitted. Each refusal is logged with the peer and counted."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from api import agent_pb2 as pb
from controller.edges.trust import refusals
from controller.protocol.enrolment import EnrolmentState, UnknownAgent, Vouched
from controller.protocol.orders import Direct, TunnelOrder, Tunnels
from controller.protocol.reports import AgentClosed, AgentOpened, Role
from tests.controller.edges.agentlink.agent import PATIENCE_S, Identity, StreamStatus, new_key
from tests.controller.edges.agentlink.fake_controller import FakeController, Log, refused

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
PHONE = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phone")])
DENIED = pb.End.CREDENTIAL


def test_ca_is_in_the_chain_and_the_name_is_the_controllers(fake_controller: FakeController) -> None:
    """The openssl command verifies the chain, independently of our code."""
    ca = fake_controller.directory.parent / "ca.pem"
    ca.write_bytes(fake_controller.ca_pem)
    told = subprocess.run(
        f"openssl s_client -connect {fake_controller.agents.join} -showcerts -verify_hostname"
        f" bicast-controller -x509_strict -verify_return_error -CAfile {ca}".split(),
        input="",
        capture_output=True,
        text=True,
    ).stdout
    assert "Verification: OK" in told and "TLSv1.3" in told
    assert fake_controller.ca_pem.decode().strip() in told


def test_certificate_is_for_this_name_and_clients_only(fake_controller: FakeController) -> None:
    """A signing request that asks for more rights changes nothing."""
    key = new_key()
    greedy = x509.CertificateSigningRequestBuilder().subject_name(PHONE)
    greedy = greedy.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    greedy = greedy.add_extension(x509.SubjectAlternativeName([x509.DNSName("bicast-controller")]), critical=False)
    asked = greedy.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    identity = fake_controller.join("phone", fake_controller.agents.invite("phone").token, asked=asked)
    assert isinstance(identity, Identity)
    made = identity.certificate
    made.verify_directly_issued_by(identity.ca)
    years = [(each.not_valid_before_utc.year, each.not_valid_after_utc.year) for each in (made, identity.ca)]
    assert years == [(1970, 9999)] * 2, "no clock refuses them"
    assert made.subject == PHONE
    found = made.extensions.get_extension_for_class
    assert list(found(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not found(x509.BasicConstraints).value.ca
    names = [each.value for each in found(x509.SubjectAlternativeName).value]
    assert names == ["urn:bicast:agent:relay"], "its role, and not the controller's name"
    assert identity.session == f":{fake_controller.agents.listen.port}", "at the host of the join listener"


def _signed(
    issuer: x509.Name, by: ec.EllipticCurvePrivateKey, purpose: x509.ObjectIdentifier, days_left: int
) -> Identity:
    now, key = datetime.now(UTC), new_key()
    made = (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(PHONE)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=days_left))
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .sign(by, hashes.SHA256())
    )
    return Identity(made, made, key, "")


def signed_by_our_ca(
    fake_controller: FakeController, purpose: x509.ObjectIdentifier = CLIENT, days_left: int = 1
) -> Identity:
    """Return a certificate that our CA's key has signed, but that the controller has never issued."""
    kept = (fake_controller.directory / "ca.pem").read_bytes()
    by = serialization.load_pem_private_key(kept, None)
    assert isinstance(by, ec.EllipticCurvePrivateKey)
    return _signed(x509.load_pem_x509_certificate(kept).subject, by, purpose, days_left)


SHOWN: dict[str, tuple[Callable[[FakeController], Identity | None], str]] = {
    "none": (lambda _: None, "TLS handshake"),
    "of another CA": (
        lambda _: _signed(PHONE, new_key(), CLIENT, 1),
        "its certificate was not issued by this controller (",
    ),
    "the controller's own, stolen": (
        lambda fake_controller: signed_by_our_ca(fake_controller, ExtendedKeyUsageOID.SERVER_AUTH),
        "",
    ),
    "expired yesterday": (lambda fake_controller: signed_by_our_ca(fake_controller, days_left=-1), ""),
}


@pytest.mark.parametrize(("shown", "said"), SHOWN.values(), ids=SHOWN)
def test_peer_without_a_valid_certificate_is_refused(
    fake_controller: FakeController, log: Log, shown: Callable[[FakeController], Identity | None], said: str
) -> None:
    fake_controller.enrolled("phone")
    assert fake_controller.stream(shown(fake_controller)).ended().cause is None
    assert said in refused(fake_controller, log, "handshake")
    assert fake_controller.quiet()


def test_certificate_outside_the_ledger_is_refused(fake_controller: FakeController, log: Log) -> None:
    ended = fake_controller.stream(signed_by_our_ca(fake_controller)).ended()
    assert ended.cause == DENIED and "ledger that is lost" in ended.said
    refused(fake_controller, log, "revoked")


@pytest.mark.parametrize("door", ["listen", "join"])
def test_peer_without_tls_is_refused(fake_controller: FakeController, log: Log, door: str) -> None:
    at = getattr(fake_controller.agents, door)
    with socket.create_connection((at.host, at.port), timeout=PATIENCE_S) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert "TLS handshake" in refused(fake_controller, log, "handshake")


def test_revocation_ends_the_stream_and_refuses_the_certificate(fake_controller: FakeController, log: Log) -> None:
    identity = fake_controller.enrolled("phone")
    stream, opened = fake_controller.served(identity)
    answer = fake_controller.agents.revoke("phone")
    assert answer.changed and "phone is revoked" in answer.done[0]
    assert stream.ended().cause == DENIED
    assert fake_controller.closed() == AgentClosed(opened.session, "the certificate of phone was revoked")
    ended = fake_controller.stream(identity).ended()
    assert ended.cause == DENIED and "was revoked: " in ended.said and "bicast enroll phone" in ended.said
    fake_controller.again()
    assert fake_controller.stream(identity).ended().cause == DENIED, "a restart changes nothing"
    refused(fake_controller, log, "revoked")
    new = fake_controller.enrolled("phone")
    assert fake_controller.stream(identity).ended().cause == DENIED, "it needs its new certificate"
    fake_controller.served(new)


def test_revoked_agent_never_gets_the_new_tunnel_key(fake_controller: FakeController) -> None:
    """The core orders the new keys before `revoke` ends the stream."""
    (home, of_home), (far, of_far) = (
        fake_controller.served(fake_controller.enrolled(name, Role.RELAY)) for name in ("home", "far")
    )

    def core(vouched: Vouched) -> None:
        keys = tuple(vouched[name].key_sha256 if name in vouched else b"" for name in ("far", "home"))
        order = Tunnels((TunnelOrder("wifi", "t-wifi", 7, 4789, None, None, keys=keys),))
        for number, opened in enumerate((of_home, of_far), 5):
            fake_controller.agents.perform(Direct(opened.session, number, order))

    fake_controller.on_vouch = core
    fake_controller.agents.revoke("home")
    assert home.any_word() == StreamStatus(DENIED, "the certificate of home was revoked")
    (tunnel,) = far.on_event().directive.tunnels.tunnels
    assert tunnel.key, "the other end changes its key"


def test_revoked_agent_that_retries_is_logged_once_and_shown(
    fake_controller: FakeController, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "QUIET_S", 0.0)  # every other refusal is logged
    identity = fake_controller.enrolled("phone")
    (before,) = fake_controller.agents.enrolled()
    assert (before.standing, before.tried_at) == (EnrolmentState.AWAY, None)
    fake_controller.agents.revoke("phone")
    for _ in range(3):
        assert fake_controller.stream(identity).ended().cause == DENIED
    told = log.get(timeout=PATIENCE_S).getMessage()
    assert "`bicast enroll phone`" in told and "until it is stopped; the next message follows in 60 min" in told
    assert log.empty() and fake_controller.agents.refusals()["revoked"] == 3
    (after,) = fake_controller.agents.enrolled()
    assert after.standing is EnrolmentState.REVOKED and after.revoked_at is not None
    assert after.tried_at is not None and after.tried_at >= after.revoked_at
    assert after.tried_from is not None and after.tried_from.startswith("127.0.0.1:")


def test_enrolment_goes_from_invited_to_connected_and_away(fake_controller: FakeController) -> None:
    def standing() -> EnrolmentState:
        return fake_controller.agents.enrolled()[0].standing

    fake_controller.agents.invite("phone")
    assert standing() is EnrolmentState.INVITED
    stream, _ = fake_controller.served(fake_controller.enrolled("phone"))
    assert standing() is EnrolmentState.CONNECTED
    fake_controller.agents.revoke("phone")
    stream.ended()
    fake_controller.agents.invite("phone")
    assert standing() is EnrolmentState.REVOKED, "until it has joined again"
    fake_controller.enrolled("phone")
    assert standing() is EnrolmentState.AWAY


def test_repeated_or_unknown_revocation_is_reported(fake_controller: FakeController) -> None:
    fake_controller.enrolled("phone")
    assert fake_controller.agents.revoke("phone").changed
    again = fake_controller.agents.revoke("phone")
    assert again.done == ("phone is already revoked",) and not again.changed
    with pytest.raises(UnknownAgent, match="there are: phone"):
        fake_controller.agents.revoke("laptop")


def test_revocation_covers_an_unused_token(fake_controller: FakeController, log: Log) -> None:
    token = fake_controller.agents.invite("phone").token
    fake_controller.agents.revoke("phone")
    assert isinstance(fake_controller.join("phone", token), StreamStatus)
    refused(fake_controller, log, "token_unknown")


def test_older_certificate_counts_until_the_newer_is_used(fake_controller: FakeController, log: Log) -> None:
    """The answer with the newer certificate may be lost in transit."""
    old, new = fake_controller.enrolled("phone"), fake_controller.enrolled("phone")
    stream, _ = fake_controller.served(old)
    newer = fake_controller.stream(new).welcomed()
    assert stream.ended().cause == DENIED, "at once, although it is alive"
    fake_controller.closed()
    assert fake_controller.event(AgentOpened).name == "phone"
    ended = fake_controller.stream(old).ended()
    assert ended.cause == DENIED and "a newer certificate" in ended.said
    refused(fake_controller, log, "replaced")
    newer.finish()
