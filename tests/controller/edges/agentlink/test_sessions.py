# SPDX-License-Identifier: Apache-2.0
"""A session over real TLS: the order of messages, its end, and who is kept from another one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink import decode
from controller.edges.agentlink import session as agent_session
from controller.edges.agentlink.connection import AgentConnection
from controller.edges.agentlink.session import AgentSession
from controller.edges.agentlink.sessions import FAULTS, LASTS_S, WITHIN_S, Quarantine, Sessions
from controller.edges.trust.authority import Shown
from controller.edges.trust.refusals import Refused
from controller.protocol.orders import Arm, Direct, Directive, Disarm, HangUp, Prefer
from controller.protocol.reports import (
    MOST_SUBFLOWS,
    AgentClosed,
    AgentEvent,
    AgentOpened,
    Connection,
    FailoverFired,
    PathManager,
    Reported,
    Resulted,
    Role,
)
from tests.controller.edges.agentlink.agent import HELLO, PATIENCE_S, StreamStatus
from tests.controller.edges.agentlink.fake_controller import FakeController

SUBFLOW = pb.Subflow(
    local_address="192.0.2.1", local_port=5000, remote_address="2001:DB8:0::7", remote_port=443, srtt_us=20_000,
    backup_by_peer=True, cwnd_segments=10, retransmits=3, since_ack_ms=12,
)  # fmt: skip


def test_core_is_notified_of_a_session_and_its_end(fake_controller: FakeController) -> None:
    identity = fake_controller.enrolled("phone")
    stream, opened = fake_controller.served(identity)
    assert opened.name == "phone" and opened.version == "of a test"
    assert opened.role is Role.RELAY and opened.path_manager is PathManager.USERSPACE
    assert opened.addresses == ("192.0.2.1", "2001:db8::1"), "in the canonical spelling"
    assert opened.peer.startswith("127.0.0.1:")
    assert fake_controller.agents.enrolled()[0].peer == opened.peer
    stream.finish()
    assert fake_controller.closed() == AgentClosed(opened.session, "it was stopped")
    assert stream.ended().cause == pb.End.PASSING


def test_welcome_has_the_common_protocol_version(fake_controller: FakeController) -> None:
    stream = fake_controller.stream(fake_controller.enrolled("phone"))
    newer = pb.FromAgent()
    newer.CopyFrom(HELLO)
    newer.hello.protocol = 7
    stream.say(newer)
    assert stream.on_event() == pb.FromController(welcome=pb.Welcome(protocol=1, report_interval_ms=1000))


def test_report_is_acknowledged_after_the_core_took_it(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("phone"))
    fake_controller.takes = False
    stream.report(41, pb.Connection(token=7, serves=True, subflows=[SUBFLOW]))
    reported = fake_controller.event(Reported)
    assert (reported.session, reported.sequence) == (opened.session, 41)
    assert isinstance(reported.connections[0], Connection) and reported.connections[0].serves
    (subflow,) = reported.connections[0].subflows
    assert subflow.remote_address == "2001:db8::7" and subflow.retransmits == 3 and subflow.since_ack_ms == 12
    fake_controller.agents.perform(Direct(opened.session, 5, Disarm("x")))
    assert stream.on_event().directive.id == 5, "and no message came before it"
    fake_controller.take()
    assert stream.on_event() == pb.FromController(ack=pb.ReportAck(sequence=41))


def test_a_second_report_in_flight_ends_the_stream(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("phone"))
    fake_controller.takes = False
    stream.report(1)
    stream.report(2)
    ended = stream.ended()
    assert ended.cause == pb.End.PASSING
    assert ended.said == "sent report 2 before report 1 was confirmed: expected one at a time"
    assert fake_controller.event(Reported).sequence == 1
    assert fake_controller.closed() == AgentClosed(opened.session, ended.said)
    assert fake_controller.agents.refusals()["speech"] == 1


@pytest.mark.parametrize(
    ("interval_ms", "subflows", "pause_s"),
    [(1000, 0, 0.25), (400, MOST_SUBFLOWS, 0.4)],
    ids=["a quarter of the interval", "an interval between large ones"],
)
def test_fast_reports_are_slowed_down(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch, interval_ms: int, subflows: int, pause_s: float
) -> None:
    monkeypatch.setattr(agent_session, "FIRST_INTERVAL_MS", interval_ms)
    stream, _ = fake_controller.served(fake_controller.enrolled("phone"))
    began = time.monotonic()
    for number in range(4):
        stream.report(number, *[pb.Connection(subflows=[SUBFLOW])] * subflows)
        assert stream.on_event().ack.sequence == number
    assert time.monotonic() - began >= 3 * pause_s, "a pause between any two"


def test_repeated_failover_messages_are_slowed_down(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "FIRED_AT_ONCE", 2)
    monkeypatch.setattr(agent_session, "FIRED_PER_S", 4.0)
    stream, _ = fake_controller.served(fake_controller.enrolled("phone"))
    began = time.monotonic()
    for _ in range(5):
        stream.say(pb.FromAgent(fired=pb.FailoverFired(name="a")))
    for _ in range(5):
        fake_controller.event(FailoverFired)
    assert time.monotonic() - began >= 3 * 0.25, "a burst of two, then four a second"


def test_large_report_delays_no_other_agent(fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, go_on = threading.Event(), threading.Event()
    reads = decode.reported

    def slow(session: int, role: Role, report: pb.Report) -> Reported:
        if report.connections:
            reading.set()
            assert go_on.wait(PATIENCE_S)
        return reads(session, role, report)

    monkeypatch.setattr(decode, "reported", slow)
    large, _ = fake_controller.served(fake_controller.enrolled("large"))
    small, opened = fake_controller.served(fake_controller.enrolled("small"))
    large.report(1, *[pb.Connection(token=7, subflows=[SUBFLOW])] * 2000)
    assert reading.wait(PATIENCE_S)
    small.report(2)
    assert small.on_event().ack.sequence == 2
    assert fake_controller.event(Reported).session == opened.session
    go_on.set()
    assert len(fake_controller.event(Reported).connections) == 2000
    assert large.on_event().ack.sequence == 1


def path(*addresses: str) -> pb.Path:
    return pb.Path(terminal_addresses=addresses)


PREFERRED = pb.Prefer(path=path("192.0.2.1", "2001:db8::1"), others=[path("192.0.2.2"), path("192.0.2.3")], hard=True)
ARMED = pb.Arm(
    name="a", watched=path("192.0.2.1"), fallback=path("192.0.2.2"), no_progress_ms=150, no_progress_many_ms=100,
    lease_ms=30_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("order", "word"),
    [
        (
            Prefer(("192.0.2.1", "2001:db8::1"), (("192.0.2.2",), ("192.0.2.3",)), True),
            pb.Directive(id=9, prefer=PREFERRED),
        ),
        (Arm("a", ("192.0.2.1",), ("192.0.2.2",), 150, 100, 30_000), pb.Directive(id=9, arm=ARMED)),
    ],
    ids=["prefer", "arm"],
)
def test_order_arrives_and_its_result_returns(
    fake_controller: FakeController, order: Directive, word: pb.Directive
) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("phone"))
    fake_controller.agents.perform(Direct(opened.session, 9, order))
    assert stream.on_event() == pb.FromController(directive=word)
    stream.say(pb.FromAgent(result=pb.Result(directive=9, done=True, answer="so\nit is", connections=2, took_us=40)))
    assert fake_controller.event(Resulted) == Resulted(opened.session, 9, True, "so it is", 2, 40)


def test_order_for_an_ended_session_is_dropped(fake_controller: FakeController) -> None:
    identity = fake_controller.enrolled("phone")
    stream, old = fake_controller.served(identity)
    stream.finish()
    fake_controller.closed()
    again, opened = fake_controller.served(identity)
    fake_controller.agents.perform(Direct(old.session, 1, Disarm("old")))
    fake_controller.agents.perform(Direct(opened.session, 2, Disarm("new")))
    assert again.on_event().directive.id == 2


NOWHERE = pb.Connection(subflows=[pb.Subflow(local_address="x")])
NO_HELLO = "sent another message before its hello"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([pb.FromAgent(report=pb.Report(sequence=1))], NO_HELLO),
        ([b"\xff\xff\xff"], "do not decode as FromAgent"),
        ([b""], "without any content"),
        ([pb.FromAgent(hello=pb.Hello(role=pb.ROLE_TERMINAL))], "protocol 0"),
        ([pb.FromAgent(hello=pb.Hello(protocol=1))], "expected terminal, gateway or relay"),
        ([pb.FromAgent(hello=pb.Hello(protocol=1, role=3, addresses=["192.0.2.256"]))], "for an address"),
        ([pb.FromAgent(hello=pb.Hello(protocol=1, role=1, addresses=["192.0.2.1"] * 65))], "more than 64"),
        ([HELLO, HELLO], "a second hello"),
        ([HELLO, b"\x00" * (1 + (4 << 20))], "4194305 bytes"),
        ([HELLO, pb.FromAgent(result=pb.Result(directive=3))], "answered directive 3"),
        ([HELLO, pb.FromAgent(report=pb.Report(connections=[NOWHERE]))], "'x' for an address"),
    ],
)  # fmt: skip
def test_protocol_violation_ends_the_stream_with_a_reason(
    fake_controller: FakeController, words: list[pb.FromAgent | bytes], says: str
) -> None:
    stream = fake_controller.stream(fake_controller.enrolled("phone"))
    for word in words:
        stream.say(word)
    ended = stream.ended()
    assert ended.cause == pb.End.PASSING and says in ended.said
    if words[0] is HELLO:
        assert fake_controller.closed_after_opening().reason == ended.said
    assert fake_controller.quiet()
    assert fake_controller.agents.refusals()["speech"] == 1


def test_oversized_message_is_not_read(fake_controller: FakeController) -> None:
    stream, _ = fake_controller.served(fake_controller.enrolled("phone"))
    stream.say(b"\x00" * (9 << 20))
    ended = stream.ended()
    assert ended.cause == pb.End.PASSING and f"{9 << 20} bytes" in ended.said
    fake_controller.closed()


def test_silent_stream_times_out(fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_session, "HELLO_WITHIN_S", 0.2)
    stream = fake_controller.stream(fake_controller.enrolled("phone"))
    assert stream.ended() == StreamStatus(pb.End.PASSING, "sent nothing for 0.2 s: expected a hello")
    assert fake_controller.quiet()


def test_agent_that_does_not_read_is_disconnected(
    fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "MOST_UNREAD", 4)
    stream = fake_controller.stream(fake_controller.enrolled("phone"), reads=1).welcomed()
    session = fake_controller.event(AgentOpened).session
    for number in range(1, 65):  # 64 MiB, more than the network buffers
        fake_controller.agents.perform(Direct(session, number, Disarm("x" * (1 << 20))))
    assert "does not read" in fake_controller.closed().reason
    stream.lost()


def test_stopping_controller_says_so(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("phone"))
    fake_controller.again()
    ended = stream.ended()
    assert ended.cause == pb.End.PASSING and "the controller is stopping" in ended.said
    assert fake_controller.closed().session == opened.session


class SilentConnection:
    """A connection that receives nothing and needs a moment to cancel its read."""

    peer = "127.0.0.1:1"

    def __init__(self) -> None:
        self.is_read = asyncio.Event()

    async def receive(self, most_bytes: int) -> bytes | None:
        self.is_read.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return None

    async def send(self, message: bytes) -> None:
        pass


@pytest.mark.parametrize("cancellations", [1, 2])
def test_stream_end_is_reported_once_despite_cancellations(cancellations: int) -> None:
    told: list[AgentEvent] = []

    def post(event: AgentEvent, taken: Callable[[], None]) -> None:
        told.append(event)

    async def lives() -> None:
        certificate = Shown("phone", "00", "", b"")
        deaf = SilentConnection()
        session = AgentSession(7, cast(AgentConnection, deaf), certificate, post)
        opened = AgentOpened(7, "phone", deaf.peer, Role.TERMINAL, PathManager.KERNEL, "1", (), ())
        stream = asyncio.create_task(session.live(opened, pb.Hello(protocol=1)))
        await deaf.is_read.wait()
        await asyncio.sleep(0)
        for _ in range(cancellations):
            stream.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await stream
        session.drop()

    asyncio.run(lives())
    assert [type(event) for event in told] == [AgentOpened, AgentClosed]


class Guest:
    def __init__(self, certificate: Shown | None) -> None:
        self.certificate = certificate
        self.is_cut = False

    def cut_after(self, within_s: float) -> None:
        self.is_cut = True


def test_revocation_closes_all_connections_of_the_name_alone() -> None:
    """Also those without a session."""
    phone, laptop = (Shown(name, "01", b"", None) for name in ("phone", "laptop"))
    guests = [Guest(phone), Guest(laptop), Guest(phone), Guest(None)]
    nothing = cast(Any, None)
    Sessions(nothing, cast(Any, guests), nothing, nothing, ":8655").revoke("phone")
    assert [guest.is_cut for guest in guests] == [True, False, True, False]


def test_agent_that_fails_the_core_twice_is_locked_out(fake_controller: FakeController) -> None:
    phone, laptop = fake_controller.enrolled("phone"), fake_controller.enrolled("laptop")
    for _ in range(FAULTS):
        stream, opened = fake_controller.served(phone)
        fake_controller.agents.perform(HangUp(opened.session, "its message made the controller fail", fault=True))
        ended = stream.ended()
        assert ended.cause == pb.End.REFUSED and "made the controller fail" in ended.said
        fake_controller.closed()
    stream = fake_controller.stream(phone)
    stream.say(HELLO)
    ended = stream.ended()
    assert ended.cause == pb.End.REFUSED and "it is admitted again in 600 s" in ended.said
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
