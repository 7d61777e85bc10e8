# SPDX-License-Identifier: Apache-2.0
"""The flows in an agent's reports, and what each has done since the report before. Every feature folds the same deltas.

A subflow whose counters fall is a new one on the same ports: it counts from 0, as a subflow does that was not in the
report before. A first report only starts the counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from controller.protocol.reports import Connection, Subflow, SubflowKey


@dataclass(frozen=True, slots=True)
class FlowDelta:
    """A subflow as reported, and what it has done since the report before."""

    subflow: Subflow
    counted: bool  # False in a first report, whose deltas are 0
    segments: int
    retransmits: int
    acked_bytes: int
    received_bytes: int
    waited_ms: int  # without an acknowledgement for data in flight, as seen across reports

    @property
    def key(self) -> SubflowKey:
        return self.subflow.key


@dataclass(frozen=True, slots=True)
class ConnectionDelta:
    token: int  # 0: plain TCP
    serves: bool  # accepted by this end
    flows: tuple[FlowDelta, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A subflow at the report before."""

    subflow: Subflow
    waited_ms: int


class FlowTable:
    """The flows of one session. A silence ends their counts."""

    def __init__(self) -> None:
        self._seen: dict[SubflowKey, _Seen] | None = None  # None: no report yet

    def forget(self) -> None:
        self._seen = None

    def on_report(self, connections: Iterable[Connection], interval_ms: int) -> tuple[ConnectionDelta, ...]:
        before, after = self._seen, dict[SubflowKey, _Seen]()

        def deltas(subflows: Iterable[Subflow]) -> Iterator[FlowDelta]:
            for subflow in subflows:
                old = before.get(subflow.key) if before is not None else None
                delta = _delta(subflow, old, before is not None, interval_ms)
                after[subflow.key] = _Seen(subflow, delta.waited_ms)
                yield delta

        found = tuple(ConnectionDelta(one.token, one.serves, tuple(deltas(one.subflows))) for one in connections)
        self._seen = after
        return found


def uncounted(connections: Iterable[ConnectionDelta]) -> tuple[ConnectionDelta, ...]:
    """Return the flows as in a first report."""
    return tuple(
        replace(one, flows=tuple(FlowDelta(flow.subflow, False, 0, 0, 0, 0, 0) for flow in one.flows))
        for one in connections
    )


def merged(earlier: Iterable[ConnectionDelta], later: Iterable[ConnectionDelta]) -> tuple[ConnectionDelta, ...]:
    """Return the later report's flows with what both reports count."""
    before = {flow.key: flow for one in earlier for flow in one.flows}
    return tuple(replace(one, flows=tuple(_sum(before.get(flow.key), flow) for flow in one.flows)) for one in later)


def _sum(before: FlowDelta | None, after: FlowDelta) -> FlowDelta:
    if before is None:
        return after
    return replace(
        after,
        segments=before.segments + after.segments,
        retransmits=before.retransmits + after.retransmits,
        acked_bytes=before.acked_bytes + after.acked_bytes,
        received_bytes=before.received_bytes + after.received_bytes,
    )


def _delta(subflow: Subflow, old: _Seen | None, counted: bool, interval_ms: int) -> FlowDelta:
    if not counted:
        return FlowDelta(subflow, False, 0, 0, 0, 0, 0)
    was = old.subflow if old is not None else None
    # One report shows that data waits; only a series of reports shows for how long.
    waits = subflow.in_flight_segments > 0 and was is not None and was.in_flight_segments > 0
    stood_still = old is not None and was is not None and waits and subflow.bytes_acked == was.bytes_acked
    waited_ms = old.waited_ms + interval_ms if old is not None and stood_still else 0
    if was is None or _restarted(subflow, was):
        received = subflow.bytes_received
        return FlowDelta(
            subflow, True, subflow.segments_sent, subflow.retransmits, subflow.bytes_acked, received, waited_ms
        )
    return FlowDelta(
        subflow=subflow,
        counted=True,
        segments=subflow.segments_sent - was.segments_sent,
        retransmits=max(0, subflow.retransmits - was.retransmits),
        acked_bytes=subflow.bytes_acked - was.bytes_acked,
        received_bytes=subflow.bytes_received - was.bytes_received,
        waited_ms=waited_ms,
    )


def _restarted(subflow: Subflow, was: Subflow) -> bool:
    return (
        subflow.segments_sent < was.segments_sent
        or subflow.bytes_acked < was.bytes_acked
        or subflow.bytes_received < was.bytes_received
    )
