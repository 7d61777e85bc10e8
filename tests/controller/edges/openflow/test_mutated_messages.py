# SPDX-License-Identifier: Apache-2.0
"""Real messages are mutated. At most the connection of the peer ends, and the core goes on.

`recorded.txt` beside this file has them: a name and the bytes of Open vSwitch 3.1 on each line. It served the gateway
of `test_audit`, with four flows of our cookie that our model cannot express, and such a meter.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from controller.core.core import Core
from controller.edges.config.load import parse
from controller.edges.openflow.frames import advertise, ask, ask_far
from controller.edges.openflow.framework import SwitchError
from controller.edges.openflow.speaker import SwitchSession, packet_out
from controller.model.in_force import InForce
from controller.model.observed import Port
from controller.program.diff import Change, DeleteFlow, DeleteMeter
from controller.program.render import describe
from controller.protocol.switch_messages import (
    Advertise,
    Apply,
    Ask,
    AskFar,
    Count,
    Effect,
    Read,
    SwitchEvent,
    SwitchOpened,
)
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.peers import FEATURES_REQUEST, MULTIPART_REQUEST, Peer
from tests.controller.edges.openflow.test_audit import DPID, GATEWAY

LINES = Path(__file__).with_name("recorded.txt").read_text().splitlines()
REAL = {name: bytes.fromhex(digits) for name, digits in map(str.split, LINES)}
ODD = 4
REPLIES = ["flows", "groups", "meters", "group-counters", "port-counters", "meter-counters"]
SAID = [*REPLIES, "barrier", "error", "arp", "solicitation"]
PORTS = {name: Port(number, "aa:55:aa:55:00:01", True) for number, name in enumerate(("own1", "own2"), 1)}
NOTHING_WRITTEN = re.sub(r', mac: "02:00:00:00:0[24]:\d\d"', "", GATEWAY)  # MACs in groups count as learned

Bend = Callable[[bytes], bytes]


def _cut(at: int) -> Bend:
    return lambda data: data[: at % (len(data) + 1)]


def _replace(at: int, cut: int, value: bytes) -> Bend:
    def bend(data: bytes) -> bytes:
        place = at % (len(data) + 1)
        return data[:place] + value + data[place + cut :]

    return bend


def _repeat(at: int, size: int) -> Bend:
    def bend(data: bytes) -> bytes:
        place = at % (len(data) + 1)
        return data[: place + size] + data[place:]

    return bend


def _true_length(data: bytes) -> bytes:
    """Correct the length, so that the rest is parsed."""
    return data[:2] + len(data).to_bytes(2, "big") + data[4:] if 4 <= len(data) <= 0xFFFF else data


PLACES = some.integers(0, 4096)
WORDS = some.integers(0, 0xFFFF) | some.sampled_from([0, 1, 3, 4, 7, 8, 16, 0x7FFF, 0x8000, 0xFFFF])
BENDS = some.one_of(
    some.builds(_cut, PLACES),
    some.builds(lambda at, value: _replace(at, len(value), value), PLACES, some.binary(min_size=1, max_size=8)),
    some.builds(lambda at, word: _replace(2 * at, 2, word.to_bytes(2, "big")), PLACES, WORDS),
    some.builds(_replace, PLACES, some.just(0), some.binary(min_size=1, max_size=16)),
    some.builds(_replace, PLACES, some.integers(1, 80), some.just(b"")),
    some.builds(_repeat, PLACES, some.integers(1, 80)),
)


def bent(names: list[str]) -> some.SearchStrategy[bytes]:
    def make(name: str, bends: list[Bend], honest: bool) -> bytes:
        data = REAL[name]
        for bend in bends:
            data = bend(data)
        return _true_length(data) if honest else data

    return some.builds(make, some.sampled_from(names), some.lists(BENDS, max_size=4), some.booleans())


class _Talk:
    """The core and one session without a socket: the core gets the switch's messages, and its orders are encoded."""

    def __init__(self) -> None:
        self.core = Core(parse(NOTHING_WRITTEN), InForce(), 0.0)
        self.session = SwitchSession(1, DPID, "")
        self.changes: list[Change] = []
        self._hear(SwitchOpened(1, DPID, "", PORTS))

    def said(self, data: bytes) -> None:
        for event in self.session.on_event(data[1], int.from_bytes(data[4:8], "big"), data):
            self._hear(event)

    def look(self) -> None:
        self._perform(self.core.tick(3600.0))

    def _hear(self, event: SwitchEvent) -> None:
        self._perform(self.core.handle(event, 0.0))
        self._perform(self.core.rest(0.0))

    def _perform(self, effects: object) -> None:
        for effect in list(effects):  # type: ignore[call-overload]
            self._write(effect)

    def _write(self, effect: Effect) -> None:
        match effect:
            case Apply():
                self.changes += effect.changes
                self.session.apply(effect)
                for change in effect.changes:
                    describe(change, PORTS)  # as the core does for a refusal
            case Read():
                self.session.read(effect)
            case Ask():
                packet_out(effect.out_port, ask(effect))
            case Advertise():
                packet_out(effect.out_port, advertise(effect))
            case AskFar():
                packet_out(effect.out_port, ask_far(effect))
            case Count():
                self.session.count()


def test_recorded_messages_are_understood() -> None:
    talk = _Talk()
    for name in REPLIES:
        talk.said(REAL[name])
    assert len(talk.core.switches[DPID].observed.macs) == 4
    gone = [change for change in talk.changes if isinstance(change, DeleteFlow | DeleteMeter)]
    assert len(gone) >= ODD + 1


@settings(max_examples=400, deadline=None)
@given(some.lists(bent(SAID), min_size=1, max_size=3), some.sampled_from(range(len(REPLIES) + 1)))
def test_mutated_reply_at_most_ends_its_connection(sent: list[bytes], when: int) -> None:
    """The reply replaces or follows the expected one. Whatever orders the core derives can be encoded."""
    talk = _Talk()
    with contextlib.suppress(SwitchError):
        for name in REPLIES[:when]:
            talk.said(REAL[name])
        for data in sent:
            if len(data) >= 8:
                talk.said(data)
        for name in REPLIES[when:]:
            talk.said(REAL[name])
        talk.look()


OPENING = [("hello", None), ("features", FEATURES_REQUEST), ("ports", MULTIPART_REQUEST)]  # with their answers


def _become(peer: Peer, steps: int) -> None:
    """Perform the first steps of a switch's handshake."""
    for name, asked in OPENING[:steps]:
        xid = peer.wait(asked)[0] if asked is not None else 0
        peer.send(REAL[name][:4] + xid.to_bytes(4, "big") + REAL[name][8:])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.lists(bent(list(REAL)), min_size=1, max_size=4), some.integers(0, len(OPENING)), some.booleans())
def test_mutated_message_at_most_ends_its_connection(
    recorder: WireRecorder,
    bridge: SwitchOpened,
    caplog: pytest.LogCaptureFixture,
    sent: list[bytes],
    steps: int,
    at_once: bool,
) -> None:
    with Peer(recorder.wire.address) as peer:
        _become(peer, steps)
        if steps == len(OPENING):
            opened = recorder.wait(SwitchOpened, lambda event: event.peer == peer.name)
            recorder.perform(Read(opened.session, 99))
        with contextlib.suppress(OSError):  # the connection has ended already
            for data in [b"".join(sent)] if at_once else sent:
                peer.send(data)
            peer.finish()
        assert peer.is_ended()
    assert recorder.read(bridge.session).program.flows == {}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
