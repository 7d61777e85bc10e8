# SPDX-License-Identifier: Apache-2.0
"""An access point shared by capped terminals and uncapped guests: a fluid model, without a clock.

The queue overflows. A TCP sender's window grows as in CUBIC, and shrinks by loss once a round trip. A capped
sender's window obeys its cap as soon as the order has arrived. Reports are as agents make them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from controller.features.caps.access_point import AccessPointState
from controller.model.config import AccessPoint, CapRule
from controller.policy.caps.flows import TcpFlow
from controller.policy.caps.sharers import PERIOD_S
from tests.controller import sites

SEGMENT_BITS, PAYLOAD_BYTES = 12_000, 1448
QUEUE_SEGMENTS = 1000
STEP_S = 0.01
ORDER_S = 0.1  # delay until a cap is in the kernel
DOUBLES_S = 0.125  # doubling time of a window that a gateway lets grow
CUBIC_C, CUBIC_BETA = 0.4, 0.7
SERVER = "203.0.113.{}"


@dataclass
class GuestSender:
    rtt_s: float
    is_held: bool = True
    has_floor: bool = True  # enforced by its own agent; a gateway enforces no floor
    udp_bps: float = 0.0  # 0: TCP
    sends: Callable[[float], bool] = lambda _: True  # by seconds since the beginning
    window: float = 10.0
    srtt_s: float = 0.0
    bytes: float = 0.0
    caps: deque[tuple[float, int, int]] = field(default_factory=deque)  # time, upper and lower limit
    most: float = float("inf")
    least: float = 0.0
    lost_at: float = -1.0
    lost_from: float = 0.0  # the window before the loss, or 0 without a loss
    told: float = 1e6  # the window that the gateway lets through

    @property
    def on_its_way(self) -> float:
        return self.window if self.has_floor else min(self.window, self.told)


class GuestAccessPoint:
    def __init__(
        self,
        senders: Sequence[GuestSender],
        rule: CapRule = CapRule.IDEAL,
        written_bps: int | None = 20_000_000,
        bps: float = 20e6,
        seed: int = 1,
        random_loss: float = 0.0,
    ) -> None:
        self._held = [one for one in senders if one.is_held]
        written = sites.many(len(self._held))
        written["access_points"] = {"air": {"rule": "ideal"}}
        for terminal in written["terminals"].values():
            terminal["access_point"] = "air"
        (site,) = sites.loaded({"sites": {"big": written}}).sites
        self.place = AccessPointState(site, AccessPoint("air", written_bps, rule))
        self.senders = list(senders)
        self.names = dict(zip(self.place.terminals, self._held, strict=True))
        self.is_off = rule is CapRule.OFF
        self.now, self.queue, self.bps = 100.0, 0.0, bps
        self._random, self._random_loss = Random(seed), random_loss
        self.began = self.now
        self._due = {name: self.now + self._random.random() * PERIOD_S for name in self.names}
        self._read = dict.fromkeys(self.names, self.now)

    @property
    def queued_s(self) -> float:
        return self.queue * SEGMENT_BITS / self.bps

    def run(self, seconds: float) -> list[float]:
        """Return each sender's deliveries in that time, in bit/s with headers."""
        before = [one.bytes for one in self.senders]
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            self._flow()
            if not self.is_off:
                self._report()
        factor = 8 * 1500 / PAYLOAD_BYTES / seconds
        return [factor * (one.bytes - was) for one, was in zip(self.senders, before, strict=True)]

    def _flow(self) -> None:
        rate = self.bps / SEGMENT_BITS
        wants = []
        for one in self.senders:
            rtt_s = one.rtt_s + self.queue / rate
            one.srtt_s = one.srtt_s + (rtt_s - one.srtt_s) * min(1.0, 4 * STEP_S / rtt_s) if one.srtt_s else rtt_s
            sends = one.sends(self.now - self.began)
            wants.append((one.udp_bps / SEGMENT_BITS or one.on_its_way / rtt_s) if sends else 0.0)
        came = sum(wants) * STEP_S
        total = self.queue + came
        carried = min(total, rate * STEP_S)
        lost = max(0.0, total - carried - QUEUE_SEGMENTS)
        self.queue = total - carried - lost
        for one, want in zip(self.senders, wants, strict=True):
            if not want:
                continue
            part = want * STEP_S / came
            one.bytes += carried * part * PAYLOAD_BYTES
            self._grow(one, want * STEP_S, lost * part)

    def _grow(self, one: GuestSender, sent: float, lost: float) -> None:
        while one.caps and one.caps[0][0] <= self.now:
            _, one.most, one.least = one.caps.popleft()
        chance = 1 - (1 - self._random_loss) ** sent if self._random_loss else 0.0
        hit = self._random.random() < lost or self._random.random() < chance
        if hit and self.now - one.lost_at > one.srtt_s:
            one.lost_at, one.lost_from = self.now, one.window
            one.window = max(2.0, one.window * CUBIC_BETA)
        elif self.now - one.lost_at > one.srtt_s:
            self._widen(one)
        if one.has_floor:
            one.window = max(one.window, min(one.least, one.window + sent))
            if one.window > one.most:  # packets in flight decrease with acknowledgements
                one.window = max(one.most, one.window - sent)
        if one.most < one.told:
            one.told = max(one.most, min(one.told, one.window) - sent)
        else:
            one.told = min(one.most, one.told * (1 + STEP_S / DOUBLES_S))

    def _widen(self, one: GuestSender) -> None:
        """Do nothing if fewer packets are in flight than permitted, since nothing shows that there is room for more."""
        if one.on_its_way < one.window or one.window >= one.most:
            return
        if not one.lost_from:
            one.window += one.window * STEP_S / one.srtt_s
            return
        since_s = self.now - one.lost_at
        k = (one.lost_from * (1 - CUBIC_BETA) / CUBIC_C) ** (1 / 3)
        target = one.lost_from + CUBIC_C * (since_s - k) ** 3
        one.window += max(0.0, min(target, 1.5 * one.window) - one.window) * STEP_S / one.srtt_s

    def _report(self) -> None:
        for number, (name, one) in enumerate(self.names.items()):
            if self.now < self._due[name]:
                continue
            own = str(self.place.terminals[name].addresses[0].address)
            srtt_us = max(1, round(one.srtt_s * 1e6))
            flow = TcpFlow(
                (own, 5000, SERVER.format(number + 1), 443), 0, int(one.bytes), srtt_us, round(one.rtt_s * 1e6), True
            )
            assert self.place.meter is not None
            self.place.meter.count_by_agent(name, [flow], self.now - self._read[name], self.now)
            self.place.on_report(self.place.terminals[name], [flow], name, PERIOD_S, self.now)
            self._read[name], self._due[name] = self.now, self.now + PERIOD_S
            self.place.decide(self.now, lambda *_: None)
            for each, holds in self.names.items():
                windows = list(self.place.windows(each).values())
                most, least = (windows[0].most, windows[0].least) if windows else (float("inf"), 0)
                holds.caps.append((self.now + ORDER_S, most, least))
