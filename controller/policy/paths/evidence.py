# SPDX-License-Identifier: Apache-2.0
"""The evidence of a report about uplinks: what its flows have done, as a reading of each uplink.

The sender finds out what is lost, so the end that retransmits tells the direction:

    at the terminal's end    towards the uplinks: by its subnet's own uplink in mode off, by the active one in single,
                             by all in bicast. There a loss belongs to no uplink, nor where the modes of classes differ
    where it is served       towards the terminal: by the uplink to which the address's subnet returns

A path on which data waits for acknowledgements may be dead in either direction. In single a subflow outside the active
uplink depends on both: it counts against its own uplink while the active one delivers, else against the active one. A
stalled subflow counts for nothing while another on the same path makes progress: its peer may have died.

Losses while the sender's own queue stands in the path, seen by round trips far above the shortest one, are caused by
the sender, on any path. They count neither for nor against the uplink.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt

from controller.model.overrides import ONWARD_PORTS
from controller.model.redundancy import PacketUplinks
from controller.policy.paths.flows import ConnectionDelta, FlowDelta
from controller.policy.paths.health import UplinkReading
from controller.policy.paths.uplinks import AddressOwner, TerminalUplinks, uses_no_uplink
from controller.protocol.reports import Subflow, SubflowKey

QUEUE_US = 40_000  # added to twice the shortest round trip, which BBR and similar senders keep in flight
UNSLOWED = 4  # a window this many times Reno's at the same loss: losses do not slow the sender (BBR)
FULL_SEGMENTS = 4  # a smaller window does not show what limits the sender
THIN_SEGMENTS = 10  # initial window; a sender with no more in flight did not make the queue that it waits in


@dataclass(frozen=True, slots=True)
class SubflowFlags:
    """A subflow of an MPTCP connection, and the ends that have flagged it as backup."""

    uplink: str
    by_us: bool  # the agent's end
    by_peer: bool


@dataclass(slots=True)
class TerminalConnections:
    """One terminal's MPTCP connections at one agent."""

    connections: dict[int, list[SubflowFlags]] = field(default_factory=dict)  # by token
    srtt_us: dict[str, int] = field(default_factory=dict)  # of the slowest subflow, by uplink


@dataclass(slots=True)
class Weighed:
    readings: dict[tuple[str, str], UplinkReading] = field(default_factory=dict)  # by terminal and uplink
    late: dict[tuple[str, str], int] = field(default_factory=dict)  # segments that queues delay, not in the readings
    standings: dict[str, TerminalConnections] = field(default_factory=dict)  # by terminal
    serves_strangers: bool = False  # the agent serves MPTCP connections of unknown addresses


@dataclass(slots=True)
class _Sum:
    segments: int = 0
    retransmits: int = 0
    late: int = 0
    acked_bytes: int = 0
    stalled_ms: int = 0
    delivers: bool = False
    limited: bool = False
    unslowed_bytes: int = 0


def weigh(
    connections: Iterable[ConnectionDelta],
    interval_ms: int,
    at_terminal: bool,
    home_of: Callable[[str], AddressOwner | None],
    way_of: Callable[[AddressOwner], TerminalUplinks],
    confirmed: Collection[SubflowKey] | None = None,
) -> Weighed:
    """Return the evidence of one report. If `confirmed` is not None, other subflows contribute nothing."""
    weighed = Weighed()
    sums: dict[tuple[str, str], _Sum] = {}
    stalls: list[tuple[TerminalUplinks, str, int]] = []
    for connection in connections:
        found = ((flow, _home(flow.subflow, at_terminal, home_of)) for flow in connection.flows)
        known = [(flow, home) for flow, home in found if home is not None]
        if connection.flows and not known:
            weighed.serves_strangers |= bool(connection.token) and connection.serves
        for flow, home in known:
            subflow = flow.subflow
            if confirmed is not None and flow.key not in confirmed:
                continue
            way = way_of(home)
            own = home.uplink or way.active
            if connection.token and (at_terminal or connection.serves):
                standing = weighed.standings.setdefault(way.terminal, TerminalConnections())
                held = SubflowFlags(own, subflow.backup_by_us, subflow.backup_by_peer)
                standing.connections.setdefault(connection.token, []).append(held)
                standing.srtt_us[own] = max(standing.srtt_us.get(own, 0), subflow.srtt_us)
            if flow.counted:
                _count(sums, _uplink_of_losses(way, own, at_terminal), own, way, flow)
                if flow.waited_ms:
                    stalls.append((way, own, min(flow.waited_ms, subflow.since_ack_ms)))
    for way, own, stalled_ms in stalls:
        stalled = sums.setdefault((way.terminal, _uplink_of_stalls(way, own, sums)), _Sum())
        stalled.stalled_ms = max(stalled.stalled_ms, stalled_ms)
    for where, one in sums.items():
        stalled_ms = 0 if one.delivers else one.stalled_ms
        weighed.readings[where] = UplinkReading(
            one.segments, one.retransmits, one.acked_bytes, stalled_ms, interval_ms, one.limited, one.unslowed_bytes
        )
        weighed.late[where] = one.late
    return weighed


def _home(subflow: Subflow, at_terminal: bool, home_of: Callable[[str], AddressOwner | None]) -> AddressOwner | None:
    """Return the configured address of a subflow's terminal.

    The result is None for an unknown address, and for a subflow that is on no single uplink: between two relays it has
    two paths, and the second relay sees the first one's address.
    """
    home = home_of(subflow.local_address if at_terminal else subflow.remote_address)
    if home is None or not at_terminal:
        return home
    goes_on = home.by_relay and subflow.remote_port in ONWARD_PORTS
    return None if goes_on or uses_no_uplink(home, subflow.remote_address) else home


def _count(
    sums: dict[tuple[str, str], _Sum], laid_to: str | None, own: str, way: TerminalUplinks, flow: FlowDelta
) -> None:
    subflow, acked = flow.subflow, flow.acked_bytes
    if acked:
        sums.setdefault((way.terminal, own), _Sum()).delivers = True
    found = sums.setdefault((way.terminal, laid_to or own), _Sum())
    found.acked_bytes += acked
    found.limited |= acked > 0 and _fills_its_window(subflow)
    if _is_unslowed(subflow, flow.segments, flow.retransmits):
        found.unslowed_bytes += acked
    if laid_to is not None and is_late(subflow):
        found.late += flow.segments
    if laid_to is not None and not _queues(subflow):
        found.segments += flow.segments
        found.retransmits += flow.retransmits


def _queues(subflow: Subflow) -> bool:
    return subflow.min_rtt_us > 0 and subflow.srtt_us > 2 * subflow.min_rtt_us + QUEUE_US


def _fills_its_window(subflow: Subflow) -> bool:
    """Return whether the window limits the sender. A paced sender keeps half of its window in flight."""
    return 2 * subflow.in_flight_segments >= subflow.cwnd_segments >= FULL_SEGMENTS


def _is_unslowed(subflow: Subflow, segments: int, retransmits: int) -> bool:
    """Return whether losses do not slow this sender.

    Reno's window at loss p is sqrt(3 / 2p) segments; CUBIC's is no larger while windows are small. An initial window
    shows nothing.
    """
    loss = max(1, retransmits) / max(1, segments)
    return subflow.cwnd_segments > max(THIN_SEGMENTS, UNSLOWED * sqrt(1.5 / loss))


def is_late(subflow: Subflow) -> bool:
    """Return whether the subflow waits in a queue that others make."""
    return _queues(subflow) and subflow.in_flight_segments <= THIN_SEGMENTS


def _uplink_of_losses(way: TerminalUplinks, own: str, at_terminal: bool) -> str | None:
    """Return the uplink to which losses of a subflow belong, or None if it is unknown."""
    if not at_terminal or way.over is PacketUplinks.OWN:
        return own
    return way.active if way.over is PacketUplinks.ACTIVE else None


def _uplink_of_stalls(way: TerminalUplinks, own: str, sums: Mapping[tuple[str, str], _Sum]) -> str:
    """Return the uplink against which a stalled subflow counts."""
    if way.over is not PacketUplinks.ACTIVE or own == way.active:
        return own
    active = sums.get((way.terminal, way.active))
    return own if active is not None and active.delivers else way.active
