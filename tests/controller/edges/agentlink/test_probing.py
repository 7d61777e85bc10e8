# SPDX-License-Identifier: Apache-2.0
"""Measurement messages over real TLS: keys known to both ends only, and complete probes that were ordered."""

from __future__ import annotations

from typing import Any

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink import decode
from controller.edges.trust.refusals import Refused
from controller.protocol.orders import (
    AnswerProbes,
    AnswerSession,
    Direct,
    Directive,
    HealthPath,
    HealthProbes,
    MeasuredWay,
    Probe,
)
from controller.protocol.reports import PathHealth, ProbePacket, ProbeReport, Reported, Resulted, Role
from tests.controller.edges.agentlink.agent import Stream
from tests.controller.edges.agentlink.fake_controller import FakeController

WAY = MeasuredWay("wlan0", None, "203.0.113.9")
HOUR_NS = 3600 * 10**9


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
    assert path.way == pb.MeasuredWay(device="wlan0", local="", remote="203.0.113.9")
    said = directive_for(fake_controller, stream, opened.session, 3, probe(7)).probe
    assert (said.name, said.port, said.down, said.tries, said.pause_us) == ("wifi", 8633, True, 10, 10_000)
    assert (said.shortest_bytes, said.longest_bytes, said.step_bytes) == (64, 1440, 16)
    assert (said.trains, said.train_packets, said.way) == (10, 40, path.way)
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


def columns(packets: int) -> dict[str, Any]:
    """Return the largest probe result, with the longest numbers."""
    return {
        "trains": [number % decode.MOST_PACKETS for number in range(packets)],
        "lengths": [1440] * packets,
        **dict.fromkeys(("sent_ns", "received_ns", "answered_ns", "heard_ns"), [HOUR_NS] * packets),
    }


def test_probe_result_arrives_complete_and_once(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    directive_for(fake_controller, stream, opened.session, 5, probe(1))
    stream.say(pb.FromAgent(result=pb.Result(directive=5, done=True, said="begun")))
    assert fake_controller.event(Resulted).done
    word = pb.Probed(directive=5, transport="udp6", hardware=True, **columns(decode.MOST_PACKETS))
    stream.say(pb.FromAgent(probed=word))
    probed = fake_controller.event(ProbeReport)
    assert (probed.session, probed.directive, probed.transport, probed.hardware) == (opened.session, 5, "udp6", True)
    assert len(probed.packets) == decode.MOST_PACKETS
    assert probed.packets[-1] == ProbePacket(19_999, 1440, *[HOUR_NS - 1] * 4)
    stream.say(pb.FromAgent(probed=pb.Probed(directive=5)))
    assert stream.ended().said == "probed by directive 5, which was not sent or is already reported"


@pytest.mark.parametrize("asked", [False, True], ids=["not asked", "refused"])
def test_result_of_a_probe_that_did_not_begin_is_refused(fake_controller: FakeController, asked: bool) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    if asked:
        directive_for(fake_controller, stream, opened.session, 5, probe(1))
        stream.say(pb.FromAgent(result=pb.Result(directive=5, done=False, said="another is measured")))
        fake_controller.event(Resulted)
    stream.say(pb.FromAgent(probed=pb.Probed(directive=5)))
    assert "probed by directive 5" in stream.ended().said


def test_unknown_time_is_none_and_not_zero() -> None:
    word = pb.Probed(
        transport="udp", trains=[0], lengths=[64], sent_ns=[1], received_ns=[2], answered_ns=[0], heard_ns=[0]
    )
    assert decode.probed(1, word).packets == (ProbePacket(0, 64, 0, 1, None, None),)


WRONG = [
    (pb.Probed(trains=[0]), "1, 0, 0, 0, 0, 0 values of a probe's packets"),
    (pb.Probed(transport="udp", **columns(20_001)), "20001 packets of a probe: expected at most 20000"),
    (pb.Probed(transport="ip\x1b", **columns(1)), "probed over 'ip ': expected udp or udp6"),
    (pb.Probed(transport="udp", **columns(1) | {"heard_ns": [HOUR_NS + 1]}), "3600000000001 ns since the probe began"),
    (pb.Probed(transport="udp", **columns(1) | {"lengths": [65_508]}), "65508 bytes of UDP payload"),
    (pb.Probed(transport="udp", **columns(1) | {"trains": [1 << 31]}), "2147483648 trains"),
]


@pytest.mark.parametrize(("word", "said"), WRONG, ids=[said for _, said in WRONG])
def test_probe_result_larger_than_ordered_is_refused(word: pb.Probed, said: str) -> None:
    with pytest.raises(Refused, match=said):
        decode.probed(1, word)


def reported(*paths: pb.PathHealth, answering: pb.Answering | None = None) -> Reported:
    return decode.reported(1, Role.GATEWAY, pb.Report(health=paths, answering=answering))


def test_path_health_is_reported() -> None:
    window = pb.HealthWindow(seconds=10, sent=100, lost=3, lost_there=1, lost_back=1, rtt_median_us=20_000)
    path = pb.PathHealth(name="wifi", sent=600, lost=9, lost_there=4, lost_back=5, late=2, windows=[window])
    report = reported(path, answering=pb.Answering(reason="8620 is taken", probes=1, too_many=2))
    (one,) = report.health
    assert isinstance(one, PathHealth) and (one.sent, one.lost, one.lost_there, one.late) == (600, 9, 4, 2)
    assert one.windows[0].rtt_median_us == 20_000 and one.windows[0].seconds == 10
    assert report.answering is not None and report.answering.reason == "8620 is taken"
    assert reported().answering is None and reported().health == ()


@pytest.mark.parametrize(
    "paths",
    [
        [pb.PathHealth(name="wifi")] * 2,
        [pb.PathHealth(name=str(number)) for number in range(65)],
        [pb.PathHealth(name="wifi", windows=[pb.HealthWindow()] * 9)],
        [pb.PathHealth(name="wifi", sent=1, lost=2)],
        [pb.PathHealth(name="wifi", sent=9, lost=2, lost_there=2, lost_back=1)],
        [pb.PathHealth(name="wifi", windows=[pb.HealthWindow(sent=1, lost=2)])],
    ],
    ids=["twice", "paths", "windows", "more lost than sent", "more of the parts", "in a window"],
)
def test_contradictory_counts_are_refused(paths: list[pb.PathHealth]) -> None:
    with pytest.raises(Refused, match=r"health|wifi"):
        reported(*paths)
