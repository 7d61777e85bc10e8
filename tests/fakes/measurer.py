# SPDX-License-Identifier: Apache-2.0
"""A fake agent of a site or a terminal that answers probes, sends health packets over lossy paths and probes links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from controller.protocol.orders import AnswerProbes, Direct, HealthPath, HealthProbes, Probe
from controller.protocol.reports import (
    AgentOpened,
    Answering,
    Capability,
    HealthWindow,
    PathHealth,
    ProbePacket,
    ProbeReport,
    Reported,
    Resulted,
    Role,
)
from tests.fakes.eliminator import FakeEliminator

WINDOW = HealthWindow(10, 0, 0, 0, 0, 0, 0, 0, 0, "", 0, 0, 0, 0, 0, 0)
HEADERS = 42


@dataclass
class FakePath:
    """A path in the direction from its near end."""

    bps: float = 20e6
    delay_ns: int = 5_000_000
    loses: float = 0.0  # share of its health packets; 1: dead
    trains_bps: float | None = None  # rate of trains, if a shaper lets single packets pass

    def probed(self, order: Probe) -> Iterator[ProbePacket]:
        lengths = range(order.shortest_bytes, order.longest_bytes + 1, order.step_bytes)
        number = 0
        for attempt in range(order.tries):
            for length in lengths:
                sent = number * order.pause_us * 1000
                wobble = (number * 7919 + attempt) % 997 * 10  # no two packets have the same delay
                received = sent + self.delay_ns + wobble + round((length + HEADERS) * 8e9 / self.bps)
                back = received + 20_000 + self.delay_ns
                known = (None, None) if order.down else (received + 20_000, back)
                yield ProbePacket(0, length, sent, received, *known)
                number += 1
        apart = round((order.longest_bytes + HEADERS) * 8e9 / (self.trains_bps or self.bps))
        for train in range(1, order.trains + 1):
            sent = number * order.pause_us * 1000
            for place in range(order.train_packets):
                yield ProbePacket(train, order.longest_bytes, sent, sent + self.delay_ns + place * apart, None, None)
            number += order.train_packets


@dataclass
class ProbeCounters:
    path: HealthPath
    sent: int = 0
    lost: int = 0

    def told(self) -> PathHealth:
        window = replace(WINDOW, sent=min(self.sent, 100), lost=min(self.lost, 100))
        return PathHealth(self.path.name, "", self.sent, self.lost, 0, 0, 0, (window,))


@dataclass(eq=False)
class FakeMeasurer(FakeEliminator):
    name: str
    cannot: str | None = None  # the reason of a missing capability
    refuses: dict[str, str] = field(default_factory=dict)  # reasons by the type name of an order
    absent: dict[str, str] = field(default_factory=dict)  # by uplink: why no packet leaves; it is retried
    links: dict[str, FakePath] = field(default_factory=dict)  # by uplink
    answer: AnswerProbes = field(default_factory=AnswerProbes)
    probes: list[Direct] = field(default_factory=list)  # orders that it has not reported yet
    measured: list[Direct] = field(default_factory=list)  # all orders to measure
    role: Role = Role.GATEWAY

    def __post_init__(self) -> None:
        super().__init__(self.name, role=self.role)
        self._sending: dict[str, ProbeCounters] = {}

    def opened(self, session: int) -> AgentOpened:
        event = super().opened(session)
        probes = Capability("probe", self.cannot is None, self.cannot or "")
        return replace(event, capabilities=(*event.capabilities, probes))

    def carry_out(self, direct: Direct) -> Resulted:
        order = direct.order
        if not isinstance(order, AnswerProbes | HealthProbes | Probe):
            return super().carry_out(direct)
        self.measured.append(direct)
        refused = self.refuses.get(type(order).__name__)
        if refused is not None:
            return Resulted(self.session, direct.directive, False, refused, 0, 100)
        match order:
            case AnswerProbes():
                self.answer = order
            case HealthProbes(paths):
                kept = {each.path: each for each in self._sending.values()}
                self._sending = {path.name: kept.get(path, ProbeCounters(path)) for path in paths}
                for path in paths:
                    if path.name in self.absent:
                        said = f"{path.name}: {self.absent[path.name]}; it is tried again"
                        return Resulted(self.session, direct.directive, False, said, 0, 100)
            case Probe():
                self.probes.append(direct)
        return Resulted(self.session, direct.directive, True, "done", 0, 100)

    def report(self, interval_ms: int = 1000) -> Reported:
        for name, sending in self._sending.items():
            packets = 0 if name in self.absent else 1000 // sending.path.pause_ms
            sending.sent += packets
            sending.lost += round(packets * self.links.get(name, FakePath()).loses)
        answering = Answering("") if self.answer.sessions else None
        health = tuple(replace(each.told(), reason=self.absent.get(name, "")) for name, each in self._sending.items())
        return replace(super().report(interval_ms), answering=answering, health=health)

    def probed(self, reason: str = "", packets: bool = True) -> ProbeReport:
        """Return the report of the oldest probe."""
        direct = self.probes.pop(0)
        assert isinstance(direct.order, Probe)
        link = self.links.get(direct.order.name, FakePath())
        came = tuple(link.probed(direct.order)) if packets else ()
        return ProbeReport(self.session, direct.directive, reason, "udp" if came else "", came)

    def orders_of(self, kind: type) -> list[object]:
        return [each.order for each in self.measured if isinstance(each.order, kind)]
