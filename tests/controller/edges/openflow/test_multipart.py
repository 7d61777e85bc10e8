# SPDX-License-Identifier: Apache-2.0
"""The description of a switch is limited. The largest site fits, and a peer cannot exceed the limit."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest

from controller.edges.config.classes import MOST_FLOWS
from controller.edges.openflow import multipart as multipart_replies
from controller.edges.openflow.framework import SwitchError, ofproto
from controller.edges.openflow.multipart import BUCKET_STATS, FLOW, GROUP, GROUP_STATS, SwitchReading, Understood
from controller.edges.openflow.oxm import encode_actions, encode_match
from controller.edges.openflow.speaker import FLOW_MOD, GROUP_MOD, HEADER, encode
from controller.model.in_force import InForce, Known
from controller.model.observed import Observed, Port
from controller.program.compile import compile
from controller.program.diff import AddFlow, AddGroup, Change
from controller.program.program import COOKIE, GROUP_IDS, Output, fields
from controller.protocol.switch_messages import Read, SwitchClosed
from tests.controller import sites
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.peers import MULTIPART_REQUEST, Peer, multipart

LONGEST = 60_000  # of a message's body


def _size(changes: Iterable[Change], request: struct.Struct, record: struct.Struct) -> int:
    """Return the size of a switch's description of these changes, which differs from the request only in the header."""
    return sum(len(encode(change, 0)) - HEADER.size - request.size + record.size for change in changes)


def test_largest_configurable_site_is_read_whole() -> None:
    written = sites.many(250, uplinks=8)
    second = {"gateways": ["10.2.0.1/16", "fd00:2::1/64"], "mac": "02:00:00:00:03:02", "uplink": "up2"}
    written["subnets"] = {"lan": written["subnets"]["lan"] | {"uplink": "up1"}, "other": second}
    for number, terminal in enumerate(written["terminals"].values(), 1):
        terminal["mode"] = "bicast"
        places = terminal["addresses"]
        places += [places[0] | {"address": f"10.2.1.{number}"}, places[0] | {"address": f"fd00:2::{number + 1:x}"}]
    written["classes"] = {f"c{number}": {"protocols": ["udp"], "ports": [str(5000 + number)]} for number in range(16)}
    (site,) = sites.loaded({"sites": {"big": written}}).sites
    ports = {name: Port(number, f"02:00:00:00:09:{number:02x}", True) for number, name in enumerate(site.ports, 1)}
    program = compile(site, Known(InForce(), Observed(ports, sites.learned(site))))
    assert len(program.flows) > 16 * 1000 > 0.9 * MOST_FLOWS
    size = _size(map(AddFlow, program.flows.values()), FLOW_MOD, FLOW)
    size += _size(map(AddGroup, program.groups.values()), GROUP_MOD, GROUP)
    size += sum(GROUP_STATS.size + len(group.buckets) * BUCKET_STATS.size for group in program.groups.values())
    assert 2 * size < multipart_replies.LARGEST_READING
    assert len(program.flows) + 2 * len(program.groups) < 0.5 * multipart_replies.MOST_RECORDS


def _endless(kind: int) -> bytes:
    """Return one message full of the shortest records."""
    if kind == ofproto.OFPMP_FLOW:
        match = encode_match(fields(in_port=1))
        record = FLOW.pack(FLOW.size + len(match), 0, 0, 0, 1, 0, 0, 0, COOKIE, 0, 0) + match
    elif kind == ofproto.OFPMP_GROUP_DESC:
        record = GROUP.pack(GROUP.size, ofproto.OFPGT_ALL, GROUP_IDS[0])
    else:
        record = struct.pack("!H", GROUP_STATS.size) + bytes(GROUP_STATS.size - 2)
    return record * (LONGEST // len(record))


@pytest.mark.parametrize("kind", [ofproto.OFPMP_FLOW, ofproto.OFPMP_GROUP_DESC, ofproto.OFPMP_GROUP])
def test_endless_short_records_are_refused(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart_replies, "MOST_RECORDS", 10_000)
    being_read = SwitchReading(1, {7: kind}, Understood())
    with pytest.raises(SwitchError, match="describes itself in more than 10000 flows and groups"):
        for _ in range(20):
            being_read.take(7, kind, _endless(kind), more=True)


def test_switch_with_an_endless_description_is_disconnected(
    recorder: WireRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    actions = encode_actions((Output(1),) * (LONGEST // 16))
    applied = struct.pack("!HH4x", ofproto.OFPIT_APPLY_ACTIONS, 8 + len(actions)) + actions
    match = encode_match(fields())
    flow = FLOW.pack(FLOW.size + len(match) + len(applied), 0, 0, 0, 1, 0, 0, 0, COOKIE, 0, 0) + match + applied
    with Peer(recorder.wire.address) as peer:
        peer.become_switch(5)
        session = recorder.opened(5).session
        recorder.perform(Read(session, 1))
        xid, _ = peer.wait(MULTIPART_REQUEST)
        for _ in range(multipart_replies.LARGEST_READING // len(flow) + 1):  # then the kernel accepts no more
            peer.send(multipart(ofproto.OFPMP_FLOW, flow, xid, more=True))
        assert peer.is_ended()
    assert recorder.wait(SwitchClosed).session == session
    assert f"describes itself in more than {multipart_replies.LARGEST_READING} bytes" in caplog.text
