# SPDX-License-Identifier: Apache-2.0
"""Two streams with one certificate: a returning agent is admitted, and a thief is detected and changes nothing."""

from __future__ import annotations

import grpc
import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink import sessions
from controller.protocol.orders import Direct, Disarm
from controller.protocol.reports import AgentClosed, AgentOpened
from tests.controller.edges.agentlink.agent import HELLO, Stream
from tests.controller.edges.agentlink.fake_controller import FakeController
from tests.controller.edges.agentlink.log import Log, refused


def answer_liveness_order(stream: Stream) -> None:
    """Answer the liveness order as an agent does."""
    word = stream.on_event()
    assert word.directive.id == 0 and word.directive.report_every.interval_ms == 1000
    stream.say(pb.FromAgent(result=pb.Result(directive=0, done=True)))


def test_second_stream_is_refused_while_the_first_answers(fake_controller: FakeController, log: Log) -> None:
    identity = fake_controller.enrolled("phone")
    first, opened = fake_controller.served(identity)
    second = fake_controller.stream(identity)
    second.say(HELLO)
    answer_liveness_order(first)
    assert second.ended().code is grpc.StatusCode.ALREADY_EXISTS
    line = refused(fake_controller, log, "rival")
    assert f"phone is already connected from {opened.peer}" in line and "revoke phone" in line
    assert fake_controller.quiet(), "the core gets no event"
    fake_controller.agents.perform(Direct(opened.session, 1, Disarm("x")))
    assert first.on_event().directive.id == 1, "the first goes on"


def test_report_proves_liveness_too(fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ANSWERS_WITHIN_S", 3600)
    identity = fake_controller.enrolled("phone")
    first, _ = fake_controller.served(identity)
    second = fake_controller.stream(identity)
    second.say(HELLO)
    assert first.on_event().directive.id == 0
    first.report(1)
    assert second.ended().code is grpc.StatusCode.ALREADY_EXISTS


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
    assert first.ended().code is grpc.StatusCode.ABORTED
    second.report(1)
    assert second.on_event().taken.sequence == 1


def test_waiting_stream_is_admitted_when_the_first_ends(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ANSWERS_WITHIN_S", 3600)
    identity = fake_controller.enrolled("phone")
    first, _ = fake_controller.served(identity)
    second = fake_controller.stream(identity)
    second.say(HELLO)
    assert first.on_event().directive.id == 0, "it waits"
    first.finish()
    fake_controller.closed()
    assert second.on_event().HasField("welcome")


def test_waiting_stream_is_refused_after_a_revocation(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ANSWERS_WITHIN_S", 3600)
    identity = fake_controller.enrolled("phone")
    first, _ = fake_controller.served(identity)
    second = fake_controller.stream(identity)
    second.say(HELLO)
    assert first.on_event().directive.id == 0, "it waits"
    fake_controller.agents.revoke("phone")
    assert second.ended().code is grpc.StatusCode.PERMISSION_DENIED
    fake_controller.closed()
    assert fake_controller.quiet()
