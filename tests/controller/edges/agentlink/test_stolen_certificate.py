# SPDX-License-Identifier: Apache-2.0
"""Two streams with one certificate: a returning agent is admitted, and a thief is detected and changes nothing."""

from __future__ import annotations

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink import sessions
from controller.protocol.orders import Direct, Disarm
from controller.protocol.reports import AgentClosed, AgentOpened, Reported
from tests.controller.edges.agentlink.agent import HELLO, Stream
from tests.controller.edges.agentlink.fake_controller import FakeController, Log, refused


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second stream wait until the first one answers or ends."""
    monkeypatch.setattr(sessions, "ANSWERS_WITHIN_S", 3600)


def rivals(fake_controller: FakeController) -> tuple[Stream, AgentOpened, Stream]:
    """Return a served stream, its event, and a second stream with its certificate, which waits for its answer."""
    identity = fake_controller.enrolled("phone")
    first, opened = fake_controller.served(identity)
    second = fake_controller.stream(identity)
    second.say(HELLO)
    word = first.on_event()
    assert word.directive.id == 0 and word.directive.report_every.interval_ms == 1000
    return first, opened, second


ANSWER = pb.FromAgent(result=pb.Result(directive=0, done=True))
REPORT = pb.FromAgent(report=pb.Report(sequence=1, interval_ms=1000))


@pytest.mark.parametrize("sign", [ANSWER, REPORT], ids=["answer", "report"])
@pytest.mark.usefixtures("patient")
def test_second_stream_is_refused_while_the_first_answers(
    fake_controller: FakeController, log: Log, sign: pb.FromAgent
) -> None:
    first, opened, second = rivals(fake_controller)
    first.say(sign)
    assert second.ended().cause == pb.End.PASSING
    line = refused(fake_controller, log, "rival")
    assert f"phone is already connected from {opened.peer}" in line and "revoke phone" in line
    if sign is REPORT:
        fake_controller.event(Reported)
        assert first.on_event().ack.sequence == 1
    assert fake_controller.quiet(), "the core gets no event"
    fake_controller.agents.perform(Direct(opened.session, 1, Disarm("x")))
    assert first.on_event().directive.id == 1, "the first goes on"


def test_stream_that_does_not_answer_is_replaced(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phone that changed its network leaves its old connection without an end."""
    monkeypatch.setattr(sessions, "ANSWERS_WITHIN_S", 0.2)
    identity = fake_controller.enrolled("phone")
    first, old = fake_controller.served(identity)
    second = fake_controller.stream(identity).welcomed()
    closed, opened = fake_controller.event(AgentClosed), fake_controller.event(AgentOpened)
    assert closed.session == old.session and f"reconnected from {opened.peer}" in closed.reason
    assert opened.session > old.session
    assert first.ended().cause == pb.End.PASSING
    second.report(1)
    assert second.on_event().ack.sequence == 1


@pytest.mark.usefixtures("patient")
def test_waiting_stream_is_admitted_when_the_first_ends(fake_controller: FakeController) -> None:
    first, _, second = rivals(fake_controller)
    first.finish()
    fake_controller.closed()
    assert second.on_event().HasField("welcome")


@pytest.mark.usefixtures("patient")
def test_waiting_stream_is_refused_after_a_revocation(fake_controller: FakeController) -> None:
    _, _, second = rivals(fake_controller)
    fake_controller.agents.revoke("phone")
    assert second.ended().cause == pb.End.CREDENTIAL
    fake_controller.closed()
    assert fake_controller.quiet()
