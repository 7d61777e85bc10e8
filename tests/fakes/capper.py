# SPDX-License-Identifier: Apache-2.0
"""Fake hosts of one access point: senders with agents that report and cap them, and a gateway's agent that watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from controller.protocol.orders import Cap, Caps, Direct, ReportEvery
from controller.protocol.reports import (
    AgentOpened,
    Capability,
    Capping,
    Connection,
    Cost,
    Passing,
    Reported,
    Resulted,
    Role,
    Subflow,
)
from tests.fakes.host import FakeHost

_ports = count(30_000)
HANDS = {"caps": "congestion-control", "clamp": "clamp", "window": "window"}


@dataclass
class FakeStream:
    """A connection of a terminal. It sends while its rate is positive."""

    terminal: str  # addresses
    other: str
    min_rtt_us: int = 16_000
    srtt_us: int = 16_000
    rate_bps: int = 2_000_000  # 0: idle
    bytes_sent: int = 0
    port: int = field(default_factory=lambda: next(_ports))
    has_scale: bool = True  # the gateway saw its handshake

    def pass_time(self, seconds: float) -> None:
        self.bytes_sent += int(self.rate_bps / 8 * seconds)

    def as_subflow(self) -> Subflow:
        return Subflow(
            local_address=self.terminal,
            local_port=self.port,
            remote_address=self.other,
            remote_port=443,
            backup_by_us=False,
            backup_by_peer=False,
            srtt_us=self.srtt_us,
            min_rtt_us=self.min_rtt_us,
            cwnd_segments=10,
            in_flight_segments=10 if self.rate_bps else 0,
            segments_sent=self.bytes_sent // 1400,
            retransmits=0,
            bytes_acked=self.bytes_sent,
            bytes_received=0,
            since_ack_ms=1,
        )

    def as_passing(self) -> Passing:
        since_data_ms = 0 if self.rate_bps else 60_000
        ends = (self.terminal, self.port, self.other, 443)
        sent = (self.bytes_sent, self.srtt_us, self.min_rtt_us)
        return Passing(*ends, *sent, since_data_ms=since_data_ms, joined=False, has_scale=self.has_scale)


class FakeCapper(FakeHost):
    def __init__(
        self,
        name: str,
        role: Role,
        addresses: tuple[str, ...],
        air: list[FakeStream],
        clock: Callable[[], float],
        *can: str,
        cannot: dict[str, str] | None = None,
        terminal: str | None = None,
    ) -> None:
        super().__init__(name, role, addresses, [], terminal=terminal)
        self.air, self.clock, self.can, self.cannot = air, clock, can, cannot or {}
        self.interval_ms = 1000
        self.refuses: str | None = None  # why it refuses to cap anything
        self.answers = True
        self.silent = False
        self.sees = True  # whether it reports connections
        self.loose = 0  # number of its sockets that refuse a cap
        self.held: Caps | None = None
        self.until = 0.0  # end of its lease
        self.caps: list[Caps] = []  # orders
        self.reported_at = float("-inf")
        self.invented: tuple[Subflow, ...] = ()

    def opened(self, session: int) -> AgentOpened:
        self.interval_ms = 1000
        able = tuple(Capability(name, True, "") for name in self.can)
        unable = tuple(Capability(name, False, why) for name, why in self.cannot.items())
        event = super().opened(session)
        return replace(event, capabilities=(*event.capabilities, *able, *unable))

    def is_due(self) -> bool:
        return not self.silent and self.clock() - self.reported_at >= self.interval_ms / 1000 - 1e-6

    def report(self, interval_ms: int = 1000) -> Reported:
        self._sequence += 1
        self.reported_at = self.clock()
        mine = [each.as_subflow() for each in self.air if each.terminal in self.addresses]
        subflows = (*mine, *self.invented) if self.role is Role.TERMINAL and self.sees else ()
        connections = tuple(Connection(0, False, (each,)) for each in subflows)
        return Reported(
            self.session, self._sequence, self.interval_ms, connections, Cost(1000, 10_000_000), capping=self._capping()
        )

    def carry_out(self, direct: Direct) -> Resulted:
        match direct.order:
            case ReportEvery(interval_ms):
                self.interval_ms = interval_ms
            case Caps():
                self.caps.append(direct.order)
                if self.refuses:
                    return Resulted(self.session, direct.directive, False, self.refuses, 0, 100)
                nothing = not direct.order.caps and not direct.order.ports and not direct.order.sharers
                self.held = None if nothing else direct.order
                self.until = self.clock() + direct.order.lease_ms / 1000
        return super().carry_out(direct)

    def window(self, stream: FakeStream) -> Cap | None:
        """Return the cap that bounds this stream now."""
        order = self.held if self.held is not None and self.clock() <= self.until else None
        pair = (stream.terminal, stream.other)
        there = (cap for cap in (order.caps if order else ()) if (cap.terminal_address, cap.other_address) == pair)
        return next(there, None)

    def _capping(self) -> Capping | None:
        if self.held is None:
            return None
        hand = next((HANDS[name] for name in self.can if name in HANDS), "")
        seen = self.air if self.held.ports else []
        passing = tuple(each.as_passing() for each in seen if each.bytes_sent)
        held = sum(self.window(each) is not None for each in self.air) - self.loose
        return Capping(hand, held, (), passing)
