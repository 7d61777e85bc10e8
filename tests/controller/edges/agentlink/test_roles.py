# SPDX-License-Identifier: Apache-2.0
"""An agent has the role in its certificate and no other."""

from __future__ import annotations

import json

import pytest
from cryptography import x509

from api import agent_pb2 as pb
from controller.protocol.reports import AgentOpened, Role
from tests.controller.edges.agentlink.fake_controller import FakeController

ROLES = {Role.TERMINAL: pb.ROLE_TERMINAL, Role.GATEWAY: pb.ROLE_GATEWAY, Role.RELAY: pb.ROLE_RELAY}


def hello(role: Role) -> pb.FromAgent:
    return pb.FromAgent(hello=pb.Hello(protocol=1, role=ROLES[role], addresses=["192.0.2.1"]))


@pytest.mark.parametrize("bound", Role)
@pytest.mark.parametrize("said", Role)
def test_hello_with_another_role_than_certified_is_refused(
    fake_controller: FakeController, bound: Role, said: Role
) -> None:
    stream = fake_controller.stream(fake_controller.enrolled("phone", bound))
    stream.say(hello(said))
    if bound is said:
        assert stream.on_event().HasField("welcome")
        assert fake_controller.event(AgentOpened).role is bound
        return
    ended = stream.ended()
    assert ended.cause == pb.End.CREDENTIAL and fake_controller.quiet()
    assert ended.said == (
        f"phone has the role {said}, but its certificate is for a {bound}: run it with `--role "
        f"{bound}`; or run `bicast enroll phone --role {said}` on the controller, and join again"
    )
    assert fake_controller.agents.refusals()["role"] == 1


def test_role_and_terminal_are_certified_and_stored(fake_controller: FakeController) -> None:
    tv = fake_controller.enrolled("tv", Role.TERMINAL, "TV_1")
    names = tv.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["urn:bicast:agent:terminal:TV_1"]
    stream = fake_controller.stream(tv)
    stream.say(hello(Role.TERMINAL))
    assert fake_controller.event(AgentOpened).terminal == "TV_1"
    kept = json.loads((fake_controller.directory / "ledger.json").read_text())["agents"]["tv"]
    assert kept["certificates"][0]["binding"] == "urn:bicast:agent:terminal:TV_1"
    (view,) = fake_controller.agents.enrolled()
    assert (view.role, view.terminal) == (Role.TERMINAL, "TV_1")


def test_token_gives_the_role_of_its_invitation(fake_controller: FakeController) -> None:
    """The holder of the token has no choice, and a later token changes nothing."""
    token = fake_controller.agents.invite("phone", Role.TERMINAL).token
    fake_controller.join("phone", token)
    fake_controller.agents.invite("phone", Role.RELAY)
    assert fake_controller.agents.enrolled()[0].role is Role.TERMINAL
    assert fake_controller.enrolled("phone", Role.RELAY) and fake_controller.agents.enrolled()[0].role is Role.RELAY
