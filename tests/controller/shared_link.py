# SPDX-License-Identifier: Apache-2.0
"""Terminals that send as fast as permitted over one link of changing rate: a fluid model with a queue, without a
clock.

Windows grow without loss up to their caps. Excess packets wait in the queue and lengthen all round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from controller.features.caps.access_point import AccessPointState
from controller.model.config import AccessPoint, CapRule
from controller.policy.bandwidth.rates import FusedRate
from controller.policy.caps.flows import TcpFlow
from tests.controller import sites

SEGMENT_BITS, PAYLOAD_BYTES = 12_000, 1448
QUEUE_SEGMENTS = 1000
STEP_S, REPORT_S = 0.01, 0.25
LATEST_S = 0.2  # delay of a report on a busy machine
SERVER = "203.0.113.{}"


@dataclass
class Sender:
    rtt_s: float
    most_bps: float = float("inf")  # rate at which its program writes
    plain_s: float = 0.0  # extra delay of packets without any queue
    window: float = 10.0
    bytes: float = 0.0
    srtt_s: float = 0.0
    cap: float = float("inf")


class SharedLink:
    def __init__(self, senders: Sequence[Sender], rate_bps: Callable[[float], float]) -> None:
        written = sites.many(len(senders))
        written["access_points"] = {"air": {"rule": "ideal"}}
        for terminal in written["terminals"].values():
            terminal["access_point"] = "air"
        (site,) = sites.loaded({"sites": {"big": written}}).sites
        self.place = AccessPointState(site, AccessPoint("air", None, CapRule.IDEAL))
        self.senders = dict(zip(self.place.terminals, senders, strict=True))
        self.trains: FusedRate | None = None  # rate measured by trains
        self.now, self.queue, self._rate_bps, self._random = 100.0, 0.0, rate_bps, Random(7)
        self.began = self.now
        self._due = {name: self.now + self._random.random() * REPORT_S for name in self.senders}
        self._read = dict.fromkeys(self.senders, self.now)
        self._late: list[tuple[float, str, TcpFlow, float]] = []
        self.carried: list[tuple[float, float]] = []  # bits in each step, and the queue in seconds

    @property
    def bandwidth_bps(self) -> float:
        assert self.place.meter is not None
        return self.place.meter.rate.bps or 0.0

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            self._flow()
            self._report()

    def utilised(self, seconds: float) -> float:
        """Return the used share of the rate in the latest seconds."""
        steps = round(seconds / STEP_S)
        return sum(bits for bits, _ in self.carried[-steps:]) / seconds / self._rate_bps(self.now - self.began)

    def queued_s(self, seconds: float) -> float:
        steps = round(seconds / STEP_S)
        return sum(queue_s for _, queue_s in self.carried[-steps:]) / steps

    def _flow(self) -> None:
        rate = self._rate_bps(self.now - self.began) / SEGMENT_BITS
        wants = {}
        for name, one in self.senders.items():
            rtt_s = one.rtt_s + one.plain_s + self.queue / rate
            one.srtt_s += (rtt_s - (one.srtt_s or rtt_s)) * min(1.0, STEP_S / rtt_s) if one.srtt_s else rtt_s
            wants[name] = min(one.window / rtt_s, one.most_bps / SEGMENT_BITS)
        came = sum(wants.values()) * STEP_S
        carried = min(self.queue + came, rate * STEP_S)
        self.queue += came - carried
        for name, one in self.senders.items():
            part = wants[name] / sum(wants.values())
            one.bytes += carried * part * PAYLOAD_BYTES
            self._grow(one, wants[name])
        if self.queue > QUEUE_SEGMENTS:
            for one in self.senders.values():
                one.window *= 0.7
            self.queue = 0.8 * QUEUE_SEGMENTS
        self.carried.append((carried * SEGMENT_BITS, self.queue / rate))

    def _grow(self, one: Sender, wants: float) -> None:
        """Grow by a fifth each round trip while the window is used up. Excess is not retransmitted."""
        if one.window > one.cap:
            one.window += (one.cap - one.window) * min(1.0, STEP_S / one.srtt_s)
        elif wants < one.most_bps / SEGMENT_BITS:
            one.window = min(one.cap, one.window * (1 + 0.2 * STEP_S / one.srtt_s))

    def _report(self) -> None:
        for number, (name, one) in enumerate(self.senders.items()):
            if self.now >= self._due[name]:
                own = str(self.place.terminals[name].addresses[0].address)
                least_us, srtt_us = round(one.rtt_s * 1e6), round(one.srtt_s * 1e6)
                flow = TcpFlow((own, 5000, SERVER.format(number + 1), 443), 0, int(one.bytes), srtt_us, least_us, True)
                late_s = self._random.random() * LATEST_S if self._random.random() < 0.1 else 0.0
                self._late.append((self.now + late_s, name, flow, self.now - self._read[name]))
                self._read[name], self._due[name] = self.now, self.now + REPORT_S
        for each in [each for each in self._late if each[0] <= self.now]:
            self._late.remove(each)
            self._heard(*each[1:])

    def _heard(self, name: str, flow: TcpFlow, seconds: float) -> None:
        assert self.place.meter is not None
        self.place.meter.count_by_agent(name, [flow], seconds, self.now)
        self.place.on_report(self.place.terminals[name], [flow], name, REPORT_S, self.now)
        self.place.decide(self.now, lambda *_: self.trains)
        for each, one in self.senders.items():
            windows = self.place.windows(each).values()
            one.cap = float(next(iter(windows)).most) if windows else float("inf")
