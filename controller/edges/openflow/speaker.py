# SPDX-License-Identifier: Apache-2.0
"""The only file that makes or reads OpenFlow messages.

Flows, groups and meters bypass the framework's codec (oxm.py).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any

from controller.edges.openflow.frames import seen
from controller.edges.openflow.framework import SwitchError, ofproto
from controller.edges.openflow.multipart import REQUESTS, SwitchReading, Understood, match_of
from controller.edges.openflow.oxm import MATCH, decode_fields, encode_actions, encode_match
from controller.model.observed import Port
from controller.program.diff import (
    AddFlow,
    AddGroup,
    AddMeter,
    Change,
    DeleteFlow,
    DeleteGroup,
    DeleteMeter,
    ModifyFlow,
    ModifyGroup,
    ModifyMeter,
)
from controller.program.program import COOKIE, COOKIE_MASK, Flow, FlowKey, Group, GroupKind, Meter, Output
from controller.protocol.switch_messages import (
    Apply,
    FlowsLost,
    PortsCounted,
    PortSeen,
    Read,
    SwitchApplied,
    SwitchEvent,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)

HEADER = struct.Struct(ofproto.OFP_HEADER_PACK_STR)  # version, type, length, xid
FLOW_MOD = struct.Struct(ofproto.OFP_FLOW_MOD_PACK_STR0)
GROUP_MOD = struct.Struct(ofproto.OFP_GROUP_MOD_PACK_STR)
METER_MOD = struct.Struct(ofproto.OFP_METER_MOD_PACK_STR)
BUCKET = struct.Struct(ofproto.OFP_BUCKET_PACK_STR)
BAND = struct.Struct(ofproto.OFP_METER_BAND_DROP_PACK_STR)
METER = struct.Struct("!HHI")  # type, length, meter
APPLY = struct.Struct("!HH4x")
GOTO = struct.Struct("!HHB3x")
MULTIPART = struct.Struct(ofproto.OFP_MULTIPART_REPLY_PACK_STR)  # type, flags
ERROR = struct.Struct("!HH")
FLOW_REMOVED = struct.Struct(ofproto.OFP_FLOW_REMOVED_PACK_STR0)
PACKET_IN = struct.Struct(ofproto.OFP_PACKET_IN_PACK_STR)
PACKET_OUT = struct.Struct(ofproto.OFP_PACKET_OUT_PACK_STR)

LARGEST_MESSAGE = 0xFFFF
GROUP_TYPES = {GroupKind.ALL: ofproto.OFPGT_ALL, GroupKind.FAST_FAILOVER: ofproto.OFPGT_FF}


def _message(kind: int, xid: int, body: bytes = b"") -> bytes:
    return HEADER.pack(ofproto.OFP_VERSION, kind, HEADER.size + len(body), xid) + body


def _flow_mod(command: int, flow: Flow) -> bytes:
    # A mask lets modify and delete touch our own flows alone; for add it must be 0 (A.3.4.1).
    mask = 0 if command == ofproto.OFPFC_ADD else COOKIE_MASK
    anything = ofproto.OFP_NO_BUFFER, ofproto.OFPP_ANY, ofproto.OFPG_ANY
    head = FLOW_MOD.pack(COOKIE, mask, flow.table, command, 0, 0, flow.priority, *anything, ofproto.OFPFF_SEND_FLOW_REM)
    if command == ofproto.OFPFC_DELETE_STRICT:
        return head + encode_match(flow.match)
    instructions = b""
    if flow.meter is not None:
        instructions += METER.pack(ofproto.OFPIT_METER, METER.size, flow.meter)
    if flow.actions:
        actions = encode_actions(flow.actions)
        instructions += APPLY.pack(ofproto.OFPIT_APPLY_ACTIONS, APPLY.size + len(actions)) + actions
    if flow.goto is not None:
        instructions += GOTO.pack(ofproto.OFPIT_GOTO_TABLE, GOTO.size, flow.goto)
    return head + encode_match(flow.match) + instructions


def _group_mod(command: int, group: Group) -> bytes:
    body = GROUP_MOD.pack(command, GROUP_TYPES[group.kind], group.group_id)
    for bucket in group.buckets:
        actions = encode_actions(bucket.actions)
        watched = ofproto.OFPP_ANY if bucket.watch_port is None else bucket.watch_port
        body += BUCKET.pack(BUCKET.size + len(actions), 0, watched, ofproto.OFPG_ANY) + actions
    return body


def _meter_mod(command: int, meter: Meter) -> bytes:
    band = BAND.pack(ofproto.OFPMBT_DROP, BAND.size, meter.rate_kbps, meter.burst_kbits)
    return METER_MOD.pack(command, ofproto.OFPMF_KBPS | ofproto.OFPMF_BURST, meter.meter_id) + band


def _body(change: Change) -> tuple[int, bytes]:
    match change:
        case AddFlow(flow):
            return ofproto.OFPT_FLOW_MOD, _flow_mod(ofproto.OFPFC_ADD, flow)
        case ModifyFlow(flow):
            return ofproto.OFPT_FLOW_MOD, _flow_mod(ofproto.OFPFC_MODIFY_STRICT, flow)
        case DeleteFlow(flow):
            return ofproto.OFPT_FLOW_MOD, _flow_mod(ofproto.OFPFC_DELETE_STRICT, flow)
        case AddGroup(group):
            return ofproto.OFPT_GROUP_MOD, _group_mod(ofproto.OFPGC_ADD, group)
        case ModifyGroup(group):
            return ofproto.OFPT_GROUP_MOD, _group_mod(ofproto.OFPGC_MODIFY, group)
        case DeleteGroup(group_id):
            return ofproto.OFPT_GROUP_MOD, GROUP_MOD.pack(ofproto.OFPGC_DELETE, ofproto.OFPGT_ALL, group_id)
        case AddMeter(meter):
            return ofproto.OFPT_METER_MOD, _meter_mod(ofproto.OFPMC_ADD, meter)
        case ModifyMeter(meter):
            return ofproto.OFPT_METER_MOD, _meter_mod(ofproto.OFPMC_MODIFY, meter)
        case DeleteMeter(meter_id):
            return ofproto.OFPT_METER_MOD, METER_MOD.pack(ofproto.OFPMC_DELETE, 0, meter_id)


def encode(change: Change, xid: int) -> bytes:
    kind, body = _body(change)
    if len(body) > LARGEST_MESSAGE - HEADER.size:
        raise ValueError(f"{change} needs {len(body)} bytes; an OpenFlow message has at most {LARGEST_MESSAGE}")
    return _message(kind, xid, body)


def packet_out(port: int, frame: bytes) -> bytes:
    actions = encode_actions((Output(port),))
    head = PACKET_OUT.pack(ofproto.OFP_NO_BUFFER, ofproto.OFPP_CONTROLLER, len(actions))
    return _message(ofproto.OFPT_PACKET_OUT, 0, head + actions + frame)


def _packet_in(data: bytes) -> tuple[int, bytes]:
    start = HEADER.size + PACKET_IN.size
    if len(data) < start + MATCH.size:
        raise SwitchError(f"sent a packet-in of {len(data)} bytes")
    _, length = MATCH.unpack_from(data, start)
    frame = start + (length + 7) // 8 * 8 + 2  # two bytes of padding behind the match (A.4.1)
    if length < MATCH.size or frame > len(data):
        raise SwitchError(f"sent a packet-in of {len(data)} bytes with a match of length {length}")
    in_port = dict(decode_fields(data[start + MATCH.size : start + length])).get("in_port")
    if not isinstance(in_port, int):
        raise SwitchError("sent a packet-in without a port")
    return in_port, data[frame:]


def _removed(data: bytes) -> FlowKey | None:
    """Return the removed flow's key. None: its cookie is foreign."""
    start = HEADER.size + FLOW_REMOVED.size
    if len(data) < start + MATCH.size:
        raise SwitchError(f"sent a flow-removed of {len(data)} bytes")
    cookie, priority, _, table, *_ = FLOW_REMOVED.unpack_from(data, HEADER.size)
    if cookie & COOKIE_MASK != COOKIE:
        return None
    return table, priority, match_of(data[start:])[0]


def _port(description: Any) -> tuple[str, Port]:
    down = description.state & ofproto.OFPPS_LINK_DOWN or description.config & ofproto.OFPPC_PORT_DOWN
    name = description.name.decode("utf-8", "backslashreplace")
    return name, Port(description.port_no, description.hw_addr, not down)


def _words(constant: str) -> str:
    """OFPET_FLOW_MOD_FAILED(5) -> flow mod failed"""
    return constant.partition("(")[0].partition("_")[2].replace("_", " ").lower()


def reason_of(kind: int, code: int) -> str:
    if kind == ofproto.OFPET_EXPERIMENTER:
        return f"experimenter error {code}"
    said = _words(ofproto.ofp_error_type_to_str(kind)) or f"error type {kind}"
    detail = _words(ofproto.ofp_error_code_to_str(kind, code)) or f"code {code}"
    return f"{said}: {detail}"


class SwitchSession:
    """One connection of one switch.

    Orders come from the core's thread and replies from the framework's; they meet in dictionaries only.
    """

    def __init__(self, number: int, dpid: int, peer: str) -> None:
        self.number = number
        self._dpid = dpid
        self._peer = peer
        self._ports: dict[str, Port] = {}
        self._xids = itertools.count(1)
        self._changes: dict[int, tuple[int, Change | None]] = {}  # by xid: ticket; change or, for barriers, None
        self._last_barriers: dict[int, int] = {}  # by xid: ticket
        self._reads: dict[int, SwitchReading] = {}
        self._counts: dict[int, SwitchReading] = {}  # of port counters alone
        self._understood = Understood()
        self._deleted: set[FlowKey] = set()  # by us; the switch may not have confirmed yet
        self._lost = False  # FlowsLost was sent since the last request to read the switch

    def ports_described(self, descriptions: list[Any]) -> None:
        self._ports.update(map(_port, descriptions))

    def port_changed(self, reason: int, description: Any) -> PortSeen:
        name, port = _port(description)
        if reason == ofproto.OFPPR_DELETE:
            self._ports.pop(name, None)
            return PortSeen(self.number, name, None)
        self._ports[name] = port
        return PortSeen(self.number, name, port)

    def opened(self) -> SwitchOpened:
        return SwitchOpened(self.number, self._dpid, self._peer, dict(self._ports))

    def apply(self, order: Apply) -> bytes:
        out = []
        before = None
        for change in order.changes:
            if before is not None and type(change) is not before:
                out.append(self._barrier(order.ticket))
            before = type(change)
            xid = next(self._xids)
            self._changes[xid] = (order.ticket, change)
            if isinstance(change, DeleteFlow):
                self._deleted.add(change.flow.key)
            out.append(encode(change, xid))
        barrier = self._barrier(order.ticket)
        (xid,) = struct.unpack_from("!I", barrier, 4)
        self._last_barriers[xid] = order.ticket
        return b"".join([*out, barrier])

    def _barrier(self, ticket: int) -> bytes:
        xid = next(self._xids)
        self._changes[xid] = (ticket, None)
        return _message(ofproto.OFPT_BARRIER_REQUEST, xid)

    def read(self, order: Read) -> bytes:
        xids = {next(self._xids): kind for kind in REQUESTS}
        reading = SwitchReading(order.ticket, xids, self._understood)
        self._reads.update(dict.fromkeys(xids, reading))
        self._lost = False
        return b"".join(
            _message(ofproto.OFPT_MULTIPART_REQUEST, xid, MULTIPART.pack(kind, 0) + REQUESTS[kind])
            for xid, kind in xids.items()
        )

    def count(self) -> bytes:
        xid, kind = next(self._xids), ofproto.OFPMP_PORT_STATS
        self._counts = {xid: SwitchReading(0, {xid: kind}, Understood())}
        return _message(ofproto.OFPT_MULTIPART_REQUEST, xid, MULTIPART.pack(kind, 0) + REQUESTS[kind])

    def on_event(self, kind: int, xid: int, data: bytes) -> Iterator[SwitchEvent]:
        if kind == ofproto.OFPT_PACKET_IN:
            in_port, frame = _packet_in(data)
            yield from seen(self.number, in_port, frame)
        elif kind == ofproto.OFPT_MULTIPART_REPLY:
            yield from self._answered(xid, data)
        elif kind == ofproto.OFPT_BARRIER_REPLY:
            yield from self._passed(xid)
        elif kind == ofproto.OFPT_ERROR:
            yield from self._refused(xid, data)
        elif kind == ofproto.OFPT_FLOW_REMOVED:
            yield from self._flow_removed(data)

    def _answered(self, xid: int, data: bytes) -> Iterator[SwitchEvent]:
        if len(data) < HEADER.size + MULTIPART.size:
            raise SwitchError(f"sent a multipart reply of {len(data)} bytes")
        kind, flags = MULTIPART.unpack_from(data, HEADER.size)
        body = data[HEADER.size + MULTIPART.size :]
        if xid in self._reads:
            more = bool(flags & ofproto.OFPMPF_REPLY_MORE)
            reading = self._reads[xid] if more else self._reads.pop(xid)
            reading.take(xid, kind, body, more)
            yield from self._finished(reading)
        elif xid in self._counts:
            counts = self._counts[xid]
            counts.take(xid, kind, body, bool(flags & ofproto.OFPMPF_REPLY_MORE))
            if counts.complete:
                self._counts = {}
                yield PortsCounted(self.number, counts.port_counters)

    def _finished(self, reading: SwitchReading) -> Iterator[SwitchEvent]:
        if reading.complete:
            self._understood = reading.understood
            yield SwitchRead(self.number, reading.ticket, reading.installed())

    def _flow_removed(self, data: bytes) -> Iterator[SwitchEvent]:
        key = _removed(data)
        if key in self._deleted:
            self._deleted.discard(key)
        elif key is not None and not self._lost:
            self._lost = True
            yield FlowsLost(self.number)

    def _passed(self, xid: int) -> Iterator[SwitchEvent]:
        if xid in self._last_barriers:
            ticket = self._last_barriers[xid]
            for waiting in (self._changes, self._last_barriers):  # a barrier completes all earlier changes
                for done in [each for each in list(waiting) if each <= xid]:
                    waiting.pop(done, None)
            yield SwitchApplied(self.number, ticket)

    def _refused(self, xid: int, data: bytes) -> Iterator[SwitchEvent]:
        if len(data) < HEADER.size + ERROR.size:
            raise SwitchError(f"sent an error message of {len(data)} bytes")
        reason = reason_of(*ERROR.unpack_from(data, HEADER.size))
        if xid in self._reads:
            reading = self._reads.pop(xid)
            if reading.refused(xid):
                yield from self._finished(reading)
                return
            for other in reading.xids:
                self._reads.pop(other, None)
            yield SwitchRefused(self.number, reading.ticket, None, reason)
        else:
            ticket, change = self._changes.get(xid, (None, None))
            yield SwitchRefused(self.number, ticket, change, reason)
