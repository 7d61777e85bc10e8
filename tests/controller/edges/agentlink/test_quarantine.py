# SPDX-License-Identifier: Apache-2.0
"""An agent whose message makes the core fail is disconnected, and after the second time locked out for a while."""

from __future__ import annotations

import grpc
import pytest

from controller.edges.agentlink.sessions import FAULTS, LASTS_S, WITHIN_S, Quarantine
from controller.edges.trust.refusals import Refused
from controller.protocol.orders import HangUp
from tests.controller.edges.agentlink.agent import HELLO
from tests.controller.edges.agentlink.fake_controller import FakeController


def test_agent_that_fails_the_core_twice_is_locked_out(fake_controller: FakeController) -> None:
    phone, laptop = fake_controller.enrolled("phone"), fake_controller.enrolled("laptop")
    for _ in range(FAULTS):
        stream, opened = fake_controller.served(phone)
        fake_controller.agents.perform(HangUp(opened.session, "its message made the controller fail", fault=True))
        ended = stream.ended()
        assert ended.code is grpc.StatusCode.FAILED_PRECONDITION and "made the controller fail" in ended.said
        fake_controller.closed()
    stream = fake_controller.stream(phone)
    stream.say(HELLO)
    ended = stream.ended()
    assert ended.code is grpc.StatusCode.FAILED_PRECONDITION and "it is admitted again in 600 s" in ended.said
    assert fake_controller.agents.refusals()["fault"] == FAULTS + 1
    fake_controller.served(laptop)


def test_quarantine_ends_and_distant_faults_make_none() -> None:
    quarantine = Quarantine()
    quarantine.fault("phone", 0.0)
    quarantine.fault("phone", WITHIN_S + 1.0)
    quarantine.check("phone", WITHIN_S + 1.0)
    quarantine.fault("phone", WITHIN_S + 2.0)
    with pytest.raises(Refused, match="admitted again in 600 s"):
        quarantine.check("phone", WITHIN_S + 2.0)
    quarantine.check("phone", WITHIN_S + 2.0 + LASTS_S)
