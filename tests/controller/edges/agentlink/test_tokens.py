# SPDX-License-Identifier: Apache-2.0
"""A token is valid once, for a short time and for one name. Each refusal is logged and counted."""

from __future__ import annotations

import base64
import hashlib
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from api import agent_pb2 as pb
from controller.edges.trust import ledger
from controller.protocol.enrolment import UnknownAgent
from controller.protocol.requests import Impossible
from tests.controller.edges.agentlink.agent import PATIENCE_S, Identity, StreamStatus, new_key, request
from tests.controller.edges.agentlink.fake_controller import FakeController, Log, refused
from tests.controller.edges.agentlink.test_listener import silent_tls_client

UNAUTHENTICATED = pb.End.CREDENTIAL


def test_token_pins_the_ca_and_only_its_hash_is_stored(fake_controller: FakeController) -> None:
    invited = fake_controller.agents.invite("phone")
    secret, _, pin = invited.token.partition(".")
    assert len(base64.b32decode(secret.upper() + "======")) == 16
    ca = x509.load_pem_x509_certificate(fake_controller.ca_pem).public_bytes(serialization.Encoding.DER)
    assert pin == base64.b32encode(hashlib.sha256(ca).digest()).decode().lower().rstrip("=")
    assert invited.join == str(fake_controller.agents.join)
    kept = (fake_controller.directory / "ledger.json").read_text()
    assert secret not in kept and hashlib.sha256(secret.encode()).hexdigest() in kept


def refusal(fake_controller: FakeController, name: str, token: str, **other: bytes) -> StreamStatus:
    ended = fake_controller.join(name, token, **other)
    assert isinstance(ended, StreamStatus)
    return ended


def test_token_is_valid_once(fake_controller: FakeController, log: Log) -> None:
    token = fake_controller.agents.invite("phone").token
    assert isinstance(fake_controller.join("phone", token), Identity)
    replayed = refusal(fake_controller, "phone", token)
    assert replayed.cause == UNAUTHENTICATED and "was already used" in replayed.said
    assert "`bicast enroll phone` makes a new one" in replayed.said
    assert "'phone'" in refused(fake_controller, log, "token_used")


def test_withdrawn_token_is_refused_and_the_certificate_stays(fake_controller: FakeController) -> None:
    agents = fake_controller.agents
    token = agents.invite("phone").token
    assert agents.withdraw("phone").changed and not agents.enrolled(), "nobody is left of whom nothing is known"
    assert "unknown" in refusal(fake_controller, "phone", token).said
    with pytest.raises(UnknownAgent, match="there are: none"):
        agents.withdraw("phone")
    identity = fake_controller.join("phone", agents.invite("phone").token)
    assert isinstance(identity, Identity) and not agents.withdraw("phone").changed
    agents.invite("phone")
    assert agents.withdraw("phone").changed
    assert [(each.token_until, each.revoked_at) for each in agents.enrolled()] == [(None, None)]
    assert agents.enrolled()[0].certificate_until is not None


def test_token_is_valid_after_an_interrupted_join(fake_controller: FakeController) -> None:
    token = fake_controller.agents.invite("phone").token
    with silent_tls_client(fake_controller) as begun:
        begun.sendall(b"\x40\x0a")  # of 64 bytes
    assert isinstance(fake_controller.join("phone", token), Identity)


def test_concurrent_joins_with_one_token_admit_one(fake_controller: FakeController) -> None:
    token = fake_controller.agents.invite("phone").token
    outcomes: list[Identity | StreamStatus] = []
    racers = [threading.Thread(target=lambda: outcomes.append(fake_controller.join("phone", token))) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sum(isinstance(each, Identity) for each in outcomes) == 1 and len(outcomes) == 8


def test_token_and_its_use_survive_a_restart(fake_controller: FakeController) -> None:
    token = fake_controller.agents.invite("phone").token
    fake_controller.again()
    assert isinstance(fake_controller.join("phone", token), Identity)
    fake_controller.again()
    refusal(fake_controller, "phone", token)


def test_token_expires_after_15_minutes(
    fake_controller: FakeController, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "TOKEN_LIVES_S", -1)
    ended = refusal(fake_controller, "phone", fake_controller.agents.invite("phone").token)
    assert ended.cause == UNAUTHENTICATED and "has expired" in ended.said
    refused(fake_controller, log, "token_old")


def test_token_is_for_one_name_and_stays_valid_for_it(fake_controller: FakeController, log: Log) -> None:
    token = fake_controller.agents.invite("phone").token
    ended = refusal(fake_controller, "laptop", token)
    assert ended.cause == UNAUTHENTICATED and "for another name" in ended.said
    refused(fake_controller, log, "token_of_another")
    assert isinstance(fake_controller.join("phone", token), Identity)


def test_new_token_replaces_the_earlier_one(fake_controller: FakeController) -> None:
    old, new = fake_controller.agents.invite("phone").token, fake_controller.agents.invite("phone").token
    refusal(fake_controller, "phone", old)
    assert isinstance(fake_controller.join("phone", new), Identity)


@pytest.mark.parametrize("name", ["", "Phone", "-phone", "a" * 64, "phone\n", "té", "../phone", "all"])
def test_invalid_agent_name_is_refused_everywhere(fake_controller: FakeController, name: str, log: Log) -> None:
    with pytest.raises(Impossible, match="not a valid name for an agent"):
        fake_controller.agents.invite(name)
    asked = request("phone", new_key())
    assert refusal(fake_controller, name, "a" * 26, asked=asked).cause == pb.End.REFUSED
    refused(fake_controller, log, "name")


def test_peer_with_many_names_does_not_fill_the_log(fake_controller: FakeController, log: Log) -> None:
    for number in range(3):
        fake_controller.join(f"phone{number}", "a" * 26)
    assert "'phone0'" in log.get(timeout=PATIENCE_S).getMessage()
    assert log.empty() and fake_controller.agents.refusals()["token_unknown"] == 3


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
def test_invalid_signing_request_leaves_the_token_valid(
    fake_controller: FakeController, log: Log, asked: bytes, says: str
) -> None:
    token = fake_controller.agents.invite("phone").token
    ended = refusal(fake_controller, "phone", token, asked=asked)
    assert ended.cause == pb.End.REFUSED and says in ended.said
    refused(fake_controller, log, "request")
    assert isinstance(fake_controller.join("phone", token), Identity)
