# SPDX-License-Identifier: Apache-2.0
"""One connection keeps track of the messages sent over it."""

from __future__ import annotations

from controller.edges.openflow.framework import ofproto
from controller.edges.openflow.speaker import ERROR, HEADER, SwitchSession
from controller.program.diff import AddFlow
from controller.program.program import Flow, Output, fields
from controller.protocol.switch_messages import Apply, SwitchApplied, SwitchRefused

FLOWS = [AddFlow(Flow(0, 1, fields(in_port=number), (Output(1),))) for number in range(2, 5)]


def xids(sent: bytes, kind: int) -> list[int]:
    found, start = [], 0
    while start < len(sent):
        _, its, length, xid = HEADER.unpack_from(sent, start)
        found += [xid] * (its == kind)
        start += length
    return found


def error(xid: int) -> bytes:
    body = ERROR.pack(ofproto.OFPET_FLOW_MOD_FAILED, ofproto.OFPFMFC_TABLE_FULL)
    return HEADER.pack(ofproto.OFP_VERSION, ofproto.OFPT_ERROR, HEADER.size + len(body), xid) + body


def refused(session: SwitchSession, xid: int) -> SwitchRefused:
    (event,) = session.on_event(ofproto.OFPT_ERROR, xid, error(xid))
    assert isinstance(event, SwitchRefused)
    return event


def test_barrier_reply_confirms_everything_before_it() -> None:
    """A switch that answers only some barriers must not make the session grow without limit."""
    session = SwitchSession(1, 1, "somebody")
    first = session.apply(Apply(1, 1, (FLOWS[0], FLOWS[1])))
    second = session.apply(Apply(1, 2, (FLOWS[2],)))
    third = session.apply(Apply(1, 3, (FLOWS[0],)))
    assert refused(session, xids(first, ofproto.OFPT_FLOW_MOD)[0]).change == FLOWS[0]
    (barrier,) = xids(second, ofproto.OFPT_BARRIER_REQUEST)
    assert list(session.on_event(ofproto.OFPT_BARRIER_REPLY, barrier, b"")) == [SwitchApplied(1, 2)]
    for sent in (first, second):
        for xid in xids(sent, ofproto.OFPT_FLOW_MOD):
            assert refused(session, xid).change is None, "it is confirmed and forgotten"
    (overtaken,) = xids(first, ofproto.OFPT_BARRIER_REQUEST)
    assert not list(session.on_event(ofproto.OFPT_BARRIER_REPLY, overtaken, b""))
    assert refused(session, xids(third, ofproto.OFPT_FLOW_MOD)[0]).change == FLOWS[0], "it is in flight"
