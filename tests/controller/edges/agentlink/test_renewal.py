# SPDX-License-Identifier: Apache-2.0
"""Certificates of agents are renewed while they are in use, and end if they are not."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from api import agent_pb2 as pb
from controller.edges.agentlink import server
from controller.edges.trust import ledger
from controller.protocol.enrolment import Vouched
from controller.protocol.reports import AgentOpened, Reported, Role
from tests.controller.edges.agentlink.fake_controller import FakeController

TREE = Path(__file__).resolve().parents[4]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the controller look at certificates often."""
    monkeypatch.setattr(server, "AGED_EVERY_S", 0.05)


@pytest.mark.parametrize("begins", [True, False], ids=["at the begin of a session", "during a session"])
@pytest.mark.usefixtures("soon")
def test_old_certificate_is_renewed_for_the_same_key(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    told: list[Vouched] = []
    identity = fake_controller.enrolled("phone")
    if begins:
        monkeypatch.setattr(ledger, "RENEWED_AFTER_S", 0.0)
    stream, _ = fake_controller.served(identity)
    fake_controller.on_vouch = told.append
    monkeypatch.setattr(ledger, "RENEWED_AFTER_S", 0.0)
    renewed = x509.load_der_x509_certificate(stream.on_event().renewed.certificate)
    renewed.verify_directly_issued_by(identity.ca)
    assert renewed.public_key() == identity.certificate.public_key() and renewed.subject == identity.certificate.subject
    monkeypatch.setattr(ledger, "RENEWED_AFTER_S", ledger.LIFETIME_S)
    fake_controller.stream(replace(identity, certificate=renewed)).welcomed()
    assert stream.ended().cause == pb.End.CREDENTIAL, "the new one is in use"
    fake_controller.closed()
    fake_controller.event(AgentOpened)
    assert fake_controller.stream(identity).ended().cause == pb.End.CREDENTIAL
    assert not told, "nobody has to accept another key"


@pytest.mark.usefixtures("soon")
def test_session_ends_with_the_life_of_its_certificate(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = fake_controller.served(fake_controller.enrolled("phone"))
    monkeypatch.setattr(ledger, "LIFETIME_S", 0.0)
    ended = stream.ended()
    assert ended.cause == pb.End.CREDENTIAL and "bicast enroll phone" in ended.said
    assert not fake_controller.agents.enrolled()


@pytest.mark.usefixtures("soon")
def test_real_agent_connects_again_with_its_new_certificate(
    fake_controller: FakeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, directory = TREE / "build" / "bicast-agent", tmp_path / "phone"
    token = fake_controller.agents.invite("phone", Role.TERMINAL).token
    words = ["--name", "phone", "--token", token, "--directory", directory]
    subprocess.run([program, "join", str(fake_controller.agents.join), *words], check=True, capture_output=True)
    before = json.loads((directory / "identity.json").read_text())
    with subprocess.Popen([program, "run", "--directory", directory], stderr=subprocess.DEVNULL) as agent:
        try:
            fake_controller.event(AgentOpened)
            monkeypatch.setattr(ledger, "RENEWED_AFTER_S", 0.0)
            while isinstance(fake_controller.any_event(), Reported):
                pass
            monkeypatch.setattr(ledger, "RENEWED_AFTER_S", ledger.LIFETIME_S)
            while not isinstance(fake_controller.any_event(), AgentOpened):
                pass
        finally:
            agent.kill()
    after = json.loads((directory / "identity.json").read_text())
    assert after["key"] == before["key"] and after["certificate"] != before["certificate"]
