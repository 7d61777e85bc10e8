# SPDX-License-Identifier: Apache-2.0
"""The reading of a switch: multipart replies into one Installed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from controller.edges.openflow.framework import SwitchError, ofproto
from controller.edges.openflow.oxm import MATCH, UNSPEAKABLE, decode_actions, decode_fields
from controller.program.program import (
    COOKIE,
    COOKIE_MASK,
    GROUP_IDS,
    METER_IDS,
    Action,
    Bucket,
    Fields,
    Flow,
    FlowKey,
    Group,
    GroupKind,
    Installed,
    Meter,
    PacketCounters,
    PortCounters,
    Program,
)

FLOW_REQUEST = struct.Struct(ofproto.OFP_FLOW_STATS_REQUEST_0_PACK_STR)
GROUP_REQUEST = struct.Struct("!I4x")
PORT_REQUEST = struct.Struct("!I4x")
METER_REQUEST = struct.Struct("!I4x")

FLOW = struct.Struct(ofproto.OFP_FLOW_STATS_0_PACK_STR)
INSTRUCTION = struct.Struct("!HH")  # type, length
GROUP = struct.Struct(ofproto.OFP_GROUP_DESC_STATS_PACK_STR)
BUCKET = struct.Struct(ofproto.OFP_BUCKET_PACK_STR)
GROUP_STATS = struct.Struct(ofproto.OFP_GROUP_STATS_PACK_STR)
BUCKET_STATS = struct.Struct("!QQ")
METER_STATS = struct.Struct("!IH6xIQQII")  # meter, length, flows, packets and bytes in, duration
METER_BAND_STATS = struct.Struct("!QQ")  # packets, bytes
METER = struct.Struct(ofproto.OFP_METER_CONFIG_PACK_STR)
BAND = struct.Struct(ofproto.OFP_METER_BAND_DROP_PACK_STR)
PORT_STATS = struct.Struct(ofproto.OFP_PORT_STATS_PACK_STR)

# 250 terminals take 0.5 MB. The largest site that gateway.yaml may describe takes 15 MB in 53,000 records, its far end
# twice that.
LARGEST_READING = 32 << 20  # bytes
MOST_RECORDS = 1 << 17  # flows, groups and counters: even the shortest takes some 500 bytes of memory
NOT_COUNTED = 0xFFFF_FFFF_FFFF_FFFF  # not supported by the switch (7.3.5.6)

KINDS = {ofproto.OFPGT_ALL: GroupKind.ALL, ofproto.OFPGT_FF: GroupKind.FAST_FAILOVER}

_ANY_MATCH = MATCH.pack(ofproto.OFPMT_OXM, MATCH.size) + bytes(4)
_ANY = ofproto.OFPP_ANY, ofproto.OFPG_ANY, 0, 0

REQUESTS: dict[int, bytes] = {
    ofproto.OFPMP_FLOW: FLOW_REQUEST.pack(ofproto.OFPTT_ALL, *_ANY) + _ANY_MATCH,
    ofproto.OFPMP_GROUP_DESC: b"",
    ofproto.OFPMP_METER_CONFIG: METER_REQUEST.pack(ofproto.OFPM_ALL),
    ofproto.OFPMP_GROUP: GROUP_REQUEST.pack(ofproto.OFPG_ALL),
    ofproto.OFPMP_PORT_STATS: PORT_REQUEST.pack(ofproto.OFPP_ANY),
    ofproto.OFPMP_METER: METER_REQUEST.pack(ofproto.OFPM_ALL),
}
OF_METERS = (int(ofproto.OFPMP_METER_CONFIG), int(ofproto.OFPMP_METER))


def _pieces(data: bytes, least: int, what: str) -> Iterator[bytes]:
    """Yield records that begin with their own length."""
    offset = 0
    while offset < len(data):
        length = int.from_bytes(data[offset : offset + 2], "big")
        if length < least or offset + length > len(data):
            raise SwitchError(f"sent a {what} of length {length}; expected {least} to {len(data) - offset}")
        yield data[offset : offset + length]
        offset += length


class Understood:
    """A cache of decoded flows and groups by their bytes: only changes are decoded."""

    def __init__(self) -> None:
        self.flows: dict[tuple[int, int, bytes], Flow] = {}  # by table, priority and the bytes behind the counters
        self.groups: dict[bytes, Group] = {}


class BucketCounters(Mapping[int, tuple[PacketCounters, ...]]):
    """Bucket counters by group, decoded on first use: few readings are ever queried."""

    def __init__(self, groups: list[bytes]) -> None:
        self._groups = groups

    @cached_property
    def _counted(self) -> dict[int, tuple[PacketCounters, ...]]:
        counted = {}
        for data in self._groups:
            _, group_id, *_ = GROUP_STATS.unpack_from(data)
            if group_id in GROUP_IDS and (len(data) - GROUP_STATS.size) % BUCKET_STATS.size == 0:
                buckets = BUCKET_STATS.iter_unpack(data[GROUP_STATS.size :])
                counted[group_id] = tuple(_counters(*bucket) for bucket in buckets)
        return counted

    def __getitem__(self, group_id: int) -> tuple[PacketCounters, ...]:
        return self._counted[group_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._counted)

    def __len__(self) -> int:
        return len(self._counted)


class SwitchReading:
    def __init__(self, ticket: int, xids: dict[int, int], before: Understood) -> None:
        self.ticket = ticket
        self.xids = xids
        self.understood = Understood()
        self._before = before
        self._missing = set(xids)
        self._bytes = self._records = 0
        self._flows: list[Flow] = []
        self._groups: list[Group] = []
        self._meters: list[Meter] = []
        self._foreign: set[FlowKey] = set()
        self._flow_counters: dict[FlowKey, PacketCounters] = {}
        self._groups_counted: list[bytes] = []
        self.port_counters: dict[int, PortCounters] = {}
        self._meter_passed: dict[int, int] = {}
        self._meter_packets: dict[int, int] = {}

    @property
    def complete(self) -> bool:
        return not self._missing

    def refused(self, xid: int) -> bool:
        """Return whether to continue after a refused request: a datapath without meters refuses those of meters."""
        self._missing.discard(xid)
        return self.xids[xid] in OF_METERS

    def take(self, xid: int, kind: int, body: bytes, more: bool) -> None:
        if kind != self.xids[xid]:
            raise SwitchError(f"answered multipart request {self.xids[xid]} with type {kind}")
        self._bytes += len(body)
        if self._bytes > LARGEST_READING:
            raise SwitchError(f"describes itself in more than {LARGEST_READING} bytes")
        READERS[kind](self, body)
        if not more:
            self._missing.discard(xid)

    def installed(self) -> Installed:
        return Installed(
            Program.of(self._flows, self._groups, self._meters),
            frozenset(self._foreign),
            self._flow_counters,
            BucketCounters(self._groups_counted),
            self.port_counters,
            self._meter_passed,
            self._meter_packets,
        )

    def _each(self, body: bytes, least: int, what: str) -> Iterator[bytes]:
        for piece in _pieces(body, least, what):
            self._records += 1
            if self._records > MOST_RECORDS:
                raise SwitchError(f"describes itself in more than {MOST_RECORDS} flows and groups")
            yield piece

    def _take_flows(self, body: bytes) -> None:
        for data in self._each(body, FLOW.size + 8, "flow"):
            _, table, _, _, priority, _, _, _, cookie, packets, octets = FLOW.unpack_from(data)
            place = table, priority, data[FLOW.size :]
            if cookie & COOKIE_MASK != COOKIE:
                self._foreign.add((table, priority, match_of(place[2])[0]))
                continue
            flow = self._before.flows.get(place) or _flow(*place)
            self.understood.flows[place] = flow
            self._flows.append(flow)
            self._flow_counters[flow.key] = PacketCounters(packets, octets)

    def _take_groups(self, body: bytes) -> None:
        for data in self._each(body, GROUP.size, "group"):
            _, kind, group_id = GROUP.unpack_from(data)
            if group_id in GROUP_IDS:
                group = self._before.groups.get(data) or _group(group_id, kind, data[GROUP.size :])
                self.understood.groups[data] = group
                self._groups.append(group)

    def _take_meters(self, body: bytes) -> None:
        # A meter's length counts its flags first: ofp_meter_config begins with the length as all here do.
        for data in _pieces(body, METER.size, "meter"):
            _, flags, meter_id = METER.unpack_from(data)
            if meter_id in METER_IDS:
                self._meters.append(_meter(meter_id, flags, data[METER.size :]))

    def _take_group_stats(self, body: bytes) -> None:
        self._groups_counted += self._each(body, GROUP_STATS.size, "group's counters")

    def _take_port_stats(self, body: bytes) -> None:
        if len(body) % PORT_STATS.size:
            raise SwitchError(f"sent port counters of {len(body)} bytes; each port needs {PORT_STATS.size}")
        for number, rx, tx, rx_bytes, tx_bytes, rx_drops, tx_drops, *_ in PORT_STATS.iter_unpack(body):
            self.port_counters[number] = PortCounters(
                _counters(rx, rx_bytes), _counters(tx, tx_bytes), _counted(rx_drops), _counted(tx_drops)
            )

    def _take_meter_stats(self, body: bytes) -> None:
        while body:
            if len(body) < METER_STATS.size:
                raise SwitchError(f"sent a meter's counters of {len(body)} bytes; each meter needs {METER_STATS.size}")
            meter_id, length, _, packets, octets, *_ = METER_STATS.unpack_from(body)
            bands = body[METER_STATS.size : length]
            if not METER_STATS.size <= length <= len(body) or len(bands) % METER_BAND_STATS.size:
                raise SwitchError(f"sent a meter's counters of length {length} where {len(body)} bytes are left")
            if meter_id in METER_IDS:
                dropped = [_counters(*band) for band in METER_BAND_STATS.iter_unpack(bands)]
                self._meter_passed[meter_id] = max(0, _counted(octets) - sum(each.bytes for each in dropped))
                self._meter_packets[meter_id] = max(0, _counted(packets) - sum(each.packets for each in dropped))
            body = body[length:]


# Unbound methods: bound ones would make each reading cyclic garbage.
READERS: dict[int, Callable[[SwitchReading, bytes], None]] = {
    ofproto.OFPMP_FLOW: SwitchReading._take_flows,
    ofproto.OFPMP_GROUP_DESC: SwitchReading._take_groups,
    ofproto.OFPMP_METER_CONFIG: SwitchReading._take_meters,
    ofproto.OFPMP_GROUP: SwitchReading._take_group_stats,
    ofproto.OFPMP_PORT_STATS: SwitchReading._take_port_stats,
    ofproto.OFPMP_METER: SwitchReading._take_meter_stats,
}


def _counted(value: int) -> int:
    return 0 if value == NOT_COUNTED else value


def _counters(packets: int, octets: int) -> PacketCounters:
    return PacketCounters(_counted(packets), _counted(octets))


def _instructions(data: bytes) -> tuple[tuple[Action, ...], int | None, int | None]:
    actions: tuple[Action, ...] = ()
    goto = meter = None
    offset = 0
    while offset < len(data):
        if len(data) - offset < 8:
            raise SwitchError("sent a flow that ends in the middle of an instruction")
        kind, length = INSTRUCTION.unpack_from(data, offset)
        if length < 8 or offset + length > len(data):
            raise SwitchError(f"sent an instruction of length {length} where {len(data) - offset} bytes are left")
        match kind:
            case ofproto.OFPIT_APPLY_ACTIONS:
                actions = decode_actions(data[offset + 8 : offset + length])
            case ofproto.OFPIT_GOTO_TABLE:
                goto = data[offset + 4]
            case ofproto.OFPIT_METER:
                meter = int.from_bytes(data[offset + 4 : offset + 8], "big")
            case _:
                actions = (UNSPEAKABLE,)
        offset += length
    return actions, goto, meter


def match_of(data: bytes) -> tuple[Fields, bytes]:
    _, length = MATCH.unpack_from(data)
    if length < MATCH.size or length > len(data):
        raise SwitchError(f"sent a flow with a match of length {length}")
    return decode_fields(data[MATCH.size : length]), data[(length + 7) // 8 * 8 :]


def _flow(table: int, priority: int, data: bytes) -> Flow:
    match, instructions = match_of(data)
    return Flow(table, priority, match, *_instructions(instructions))


def _group(group_id: int, kind: int, data: bytes) -> Group:
    buckets = tuple(_bucket(piece) for piece in _pieces(data, BUCKET.size, "bucket"))
    if kind not in KINDS:
        kind, buckets = ofproto.OFPGT_ALL, (Bucket((UNSPEAKABLE,)),)
    return Group(group_id, KINDS[kind], buckets)


def _bucket(data: bytes) -> Bucket:
    _, _, watched, _ = BUCKET.unpack_from(data)
    return Bucket(decode_actions(data[BUCKET.size :]), None if watched == ofproto.OFPP_ANY else watched)


def _meter(meter_id: int, flags: int, bands: bytes) -> Meter:
    """Decode a meter. One that Meter cannot describe gets rate 0, which no program has."""
    wanted = ofproto.OFPMF_KBPS | ofproto.OFPMF_BURST
    if len(bands) == BAND.size and flags & (wanted | ofproto.OFPMF_PKTPS) == wanted:
        kind, _, rate, burst = BAND.unpack(bands)
        if kind == ofproto.OFPMBT_DROP:
            return Meter(meter_id, rate, burst)
    return Meter(meter_id, 0, 0)
