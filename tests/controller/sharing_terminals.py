# SPDX-License-Identifier: Apache-2.0
"""Terminals that share an access point, as in their agents' reports, without a clock or sleep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.model.config import AccessPoint, CapRule, CapTables
from controller.policy.caps import sharers, terminal_cap
from controller.policy.caps.flows import TcpFlow
from controller.policy.caps.sharers import Sharer
from controller.policy.caps.terminal_cap import Ruling

NEAR, FAR = "10.9.0.4", "10.9.1.4"
PERIOD_S = sharers.PERIOD_S
BANDWIDTH_BPS = 20_000_000
IDEAL = AccessPoint("air", BANDWIDTH_BPS, CapRule.IDEAL)


def paper(tables: CapTables) -> AccessPoint:
    return AccessPoint("air", None, CapRule.PAPER, tables)


def address(number: int) -> str:
    return f"10.1.{number // 250}.{number % 250 + 1}"


@dataclass(frozen=True, slots=True)
class TcpStream:
    """A connection that sends all the time."""

    other: str = NEAR
    rtt_us: int = 4000
    srtt_us: int | None = None  # None: equal to the minimum
    bps: int = 2_000_000
    token: int = 0
    joined: bool = False

    def flow(self, terminal: str, port: int, for_s: float) -> TcpFlow:
        sent = int(self.bps / 8 * for_s)
        srtt_us = self.rtt_us if self.srtt_us is None else self.srtt_us
        return TcpFlow(
            (terminal, port, self.other, 80), self.token, sent, srtt_us, self.rtt_us, bool(self.bps), self.joined
        )


@dataclass(slots=True)
class AccessPointModel:
    """An access point over time, with one report of each terminal's traffic per period."""

    access_point: AccessPoint = IDEAL
    now: float = 100.0
    ruling: Ruling | None = None
    sharers: dict[str, Sharer] = field(default_factory=dict)
    sent: dict[tuple[str, int], int] = field(default_factory=dict)
    uplink_of: dict[str, str] = field(default_factory=dict)  # uplink by terminal, wifi by default

    def on_event(self, terminal: str, flows: Sequence[TcpFlow]) -> Sharer:
        before, uplinks_key = self.sharers.get(terminal), self.uplink_of.get(terminal, "wifi")
        self.sharers[terminal] = sharers.after_report(
            before, terminal, {terminal}, flows, self.now, uplinks_key=uplinks_key
        )
        return self.sharers[terminal]

    def passes(self, streams: Mapping[str, Sequence[TcpStream]], reports: int = 3) -> Ruling:
        """Return the ruling after this many reports of each terminal. Terminals that are not named do not report."""
        for _ in range(reports):
            self.now += PERIOD_S
            for terminal, each in streams.items():
                self.on_event(terminal, [self._flow(terminal, port, one) for port, one in enumerate(each, 5000)])
            self.ruling = self.decide()
        assert self.ruling is not None
        return self.ruling

    def decide(self) -> Ruling:
        return terminal_cap.decide(self.access_point, tuple(self.sharers.values()), self.ruling, self.now)

    def _flow(self, terminal: str, port: int, one: TcpStream) -> TcpFlow:
        flow = one.flow(terminal, port, PERIOD_S)
        total = self.sent.get((terminal, port), 0) + flow.bytes_sent
        self.sent[terminal, port] = total
        return replace(flow, bytes_sent=total)


def equal(terminals: int, *streams: TcpStream) -> dict[str, tuple[TcpStream, ...]]:
    return {address(number): streams for number in range(terminals)}
