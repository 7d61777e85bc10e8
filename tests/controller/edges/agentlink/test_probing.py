# SPDX-License-Identifier: Apache-2.0
"""Measurement messages over real TLS: keys known to both ends only, and complete probes that were ordered."""

from __future__ import annotations

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink import decode
from controller.protocol.orders import (
    AnswerProbes,
    AnswerSession,
    Direct,
    Directive,
    HealthPath,
    HealthProbes,
    Probe,
    ProbeRoute,
)
from controller.protocol.reports import ProbePacket, ProbeReport, Resulted
from tests.controller.edges.agentlink.agent import Stream
from tests.controller.edges.agentlink.fake_controller import FakeController
from tests.controller.edges.agentlink.test_decode import HOUR_NS, columns

WAY = ProbeRoute("wlan0", None, "203.0.113.9")


def answer(meeting: int) -> AnswerProbes:
    return AnswerProbes((AnswerSession(number=3, health_port=8620, probe_port=8633, meeting=meeting),))


def health(meeting: int) -> HealthProbes:
    return HealthProbes((HealthPath("wifi", WAY, port=8620, number=3, pause_ms=100, meeting=meeting),))


def probe(meeting: int) -> Probe:
    return Probe(
        "wifi", WAY, port=8633, down=True, shortest_bytes=64, longest_bytes=1440, step_bytes=16, tries=10,
        pause_us=10_000, trains=10, train_packets=40, meeting=meeting,
    )  # fmt: skip


def directive_for(
    fake_controller: FakeController, stream: Stream, session: int, number: int, order: Directive
) -> pb.Directive:
    fake_controller.agents.perform(Direct(session, number, order))
    directive = stream.on_event().directive
    assert directive.id == number
    return directive


def test_measurement_orders_arrive_complete(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    (session,) = directive_for(fake_controller, stream, opened.session, 1, answer(7)).answer.sessions
    assert (session.number, session.health_port, session.probe_port) == (3, 8620, 8633)
    (path,) = directive_for(fake_controller, stream, opened.session, 2, health(7)).health.paths
    assert (path.name, path.port, path.number, path.pause_ms) == ("wifi", 8620, 3, 100)
    assert path.route == pb.ProbeRoute(device="wlan0", local="", remote="203.0.113.9")
    said = directive_for(fake_controller, stream, opened.session, 3, probe(7)).probe
    assert (said.name, said.port, said.down, said.tries, said.pause_us) == ("wifi", 8633, True, 10, 10_000)
    assert (said.shortest_bytes, said.longest_bytes, said.step_bytes) == (64, 1440, 16)
    assert (said.trains, said.train_packets, said.route) == (10, 40, path.route)
    nothing = (
        directive_for(fake_controller, stream, opened.session, 4, AnswerProbes()),
        directive_for(fake_controller, stream, opened.session, 5, HealthProbes()),
    )
    assert [each.WhichOneof("order") for each in nothing] == ["answer", "health"]


def test_key_depends_on_the_pair_and_the_controller_start(fake_controller: FakeController) -> None:
    identity = fake_controller.enrolled("home")
    stream, opened = fake_controller.served(identity)

    def keys(meeting: int) -> set[bytes]:
        words = [
            directive_for(fake_controller, stream, opened.session, 1, order(meeting))
            for order in (answer, health, probe)
        ]
        return {words[0].answer.sessions[0].key, words[1].health.paths[0].key, words[2].probe.key}

    first, second = keys(1), keys(2)
    assert len(first) == len(second) == 1 and all(len(key) == 32 for key in first | second)
    assert first != second
    fake_controller.again()
    fake_controller.closed()
    stream, opened = fake_controller.served(identity)
    assert keys(1).isdisjoint(first | second)


def test_probe_result_arrives_complete_and_once(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    directive_for(fake_controller, stream, opened.session, 5, probe(1))
    stream.say(pb.FromAgent(result=pb.Result(directive=5, done=True, answer="begun")))
    assert fake_controller.event(Resulted).done
    word = pb.ProbeReport(directive=5, transport="udp6", **columns(decode.MOST_PACKETS))
    stream.say(pb.FromAgent(probe_report=word))
    probed = fake_controller.event(ProbeReport)
    assert (probed.session, probed.directive, probed.transport) == (opened.session, 5, "udp6")
    assert len(probed.packets) == decode.MOST_PACKETS
    assert probed.packets[-1] == ProbePacket(19_999, 1440, *[HOUR_NS - 1] * 4)
    stream.say(pb.FromAgent(probe_report=pb.ProbeReport(directive=5)))
    assert stream.ended().said == "sent probe_report of directive 5, which was not sent or is already reported"


@pytest.mark.parametrize("asked", [False, True], ids=["not asked", "refused"])
def test_result_of_a_probe_that_did_not_begin_is_refused(fake_controller: FakeController, asked: bool) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    if asked:
        directive_for(fake_controller, stream, opened.session, 5, probe(1))
        stream.say(pb.FromAgent(result=pb.Result(directive=5, done=False, answer="another is measured")))
        fake_controller.event(Resulted)
    stream.say(pb.FromAgent(probe_report=pb.ProbeReport(directive=5)))
    assert "sent probe_report of directive 5" in stream.ended().said
