# SPDX-License-Identifier: Apache-2.0
"""The public keys of a gateway's tunnels are bound to the key of its certificate."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cryptography import x509

from api import agent_pb2 as pb
from controller.edges.trust import ledger
from controller.edges.trust.refusals import Reason
from controller.protocol.enrolment import TUNNEL_KEYS, Vouched
from controller.protocol.reports import Role
from tests.controller.edges.agentlink.agent import HELLO, Identity, Stream
from tests.controller.edges.agentlink.fake_controller import FakeController

KEYS, OTHERS = (tuple(bytes([one, number]) * 16 for number in range(TUNNEL_KEYS)) for one in (1, 2))


def shown(fake_controller: FakeController, identity: Identity, keys: tuple[bytes, ...], role: int = 2) -> Stream:
    hello = pb.FromAgent()
    hello.CopyFrom(HELLO)
    hello.hello.role = pb.Role.ValueType(role)
    hello.hello.tunnel_keys.extend(keys)
    stream = fake_controller.stream(identity)
    stream.say(hello)
    return stream


def test_keys_are_bound_at_first_use_and_kept(fake_controller: FakeController) -> None:
    told: list[Vouched] = []
    fake_controller.on_vouch = told.append
    identity = fake_controller.enrolled("home", Role.GATEWAY)
    assert told[-1]["home"].tunnel_keys == ()
    stream = shown(fake_controller, identity, KEYS)
    assert stream.on_event().HasField("welcome")
    assert told[-1]["home"].tunnel_keys == KEYS
    stream.close()
    ended = shown(fake_controller, identity, OTHERS).ended()
    assert "shows other public keys for tunnels than before" in ended.said
    assert fake_controller.agents.refusals()[Reason.SPEECH] == 1
    fake_controller.again()
    assert told[-1]["home"].tunnel_keys == KEYS, "the ledger has them"
    again = shown(fake_controller, fake_controller.enrolled("home", Role.GATEWAY), OTHERS)
    assert again.on_event().HasField("welcome")
    assert told[-1]["home"].tunnel_keys == OTHERS, "another certificate's key, after another join"


def test_a_renewed_certificate_has_the_same_keys(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = fake_controller.enrolled("home", Role.GATEWAY)
    monkeypatch.setattr(ledger, "RENEWED_AFTER_S", 0.0)
    stream = shown(fake_controller, identity, KEYS)
    assert stream.on_event().HasField("welcome")
    renewed = x509.load_der_x509_certificate(stream.on_event().renewed.certificate)
    told: list[Vouched] = []
    fake_controller.on_vouch = told.append
    other = replace(identity, certificate=renewed)
    assert "other public keys" in shown(fake_controller, other, OTHERS).ended().said
    assert shown(fake_controller, other, KEYS).on_event().HasField("welcome")
    assert not told, "nothing changes for the other site"


@pytest.mark.parametrize(
    ("role", "keys"), [(Role.GATEWAY, KEYS[1:]), (Role.TERMINAL, KEYS), (Role.GATEWAY, (b"",) * 8)]
)
def test_wrong_keys_are_refused(fake_controller: FakeController, role: Role, keys: tuple[bytes, ...]) -> None:
    name = "phone" if role is Role.TERMINAL else "home"
    number = 1 if role is Role.TERMINAL else 2
    ended = shown(fake_controller, fake_controller.enrolled(name, role), keys, number).ended()
    assert "public keys for tunnels: expected 8 of 32 bytes from a gateway" in ended.said


def test_a_ledger_without_keys_is_read(fake_controller: FakeController) -> None:
    fake_controller.enrolled("home", Role.GATEWAY)
    path = fake_controller.directory / "ledger.json"
    written = json.loads(path.read_text())
    for one in written["agents"]["home"]["certificates"]:
        del one["tunnel_keys"]
    path.write_text(json.dumps(written | {"version": 4}))
    assert ledger.read_entries(path, path.read_bytes())["home"].certificates[0].tunnel_keys == ()
