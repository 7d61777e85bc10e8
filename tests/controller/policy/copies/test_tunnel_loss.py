# SPDX-License-Identifier: Apache-2.0
"""Loss of the tunnel's own packets is certain within seconds, and packets in flight never count as lost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from random import Random

import pytest

from controller.features.copies.manager import COUNTED_S, SLOW_LOSS, SLOW_S
from controller.policy.copies.adaptive import Watch, after_evidence, decide
from controller.policy.copies.tallies import Evidence, LossCounts, Source
from controller.policy.copies.tunnel_loss import History, TunnelReading, certain_loss, extended
from controller.program.program import PacketCounters

SECONDS = 60
BEGINS_S = 20.0  # the loss begins
DELAY_S = 0.03
READ_WITHIN_S = 0.06
CALL, SEGMENT, LONG_PROBE = 214, 1450, 1464  # bytes

Packet = tuple[float, int]  # time of sending, and bytes


def call(per_s: int = 50, size: int = CALL) -> list[Packet]:
    return [(number / per_s, size) for number in range(SECONDS * per_s)]


def pages(random: Random) -> list[Packet]:
    """Return bursts of 400 segments within 40 ms, one of them starting in each second."""
    begins = [second + random.random() for second in range(SECONDS)]
    return sorted((begin + random.random() * 0.04, SEGMENT) for begin in begins for _ in range(400))


def upload(random: Random) -> list[Packet]:
    """Return a TCP upload of 10 Mbit/s with pauses."""
    on = [second for second in range(SECONDS) if random.random() < 0.7]
    return [(second + number / 850, SEGMENT) for second in on for number in range(850)]


class SimulatedTunnel:
    """Count packets sent and received. Each switch is polled once a second and read a little later."""

    def __init__(self, sent: Iterable[Packet], arrived: Iterable[Packet], random: Random) -> None:
        self._ends = [self._counter(sent), self._counter(arrived)]
        self._random = random

    @staticmethod
    def _counter(packets: Iterable[Packet]) -> Callable[[float], PacketCounters]:
        known = sorted(packets)
        times, sizes = [at for at, _ in known], [0, *accumulate(size for _, size in known)]

        def counted(at: float) -> PacketCounters:
            number = bisect_right(times, at)
            return PacketCounters(number, sizes[number])

        return counted

    def read(self, second: int) -> TunnelReading:
        sent, received = (end(second + self._random.random() * READ_WITHIN_S) for end in self._ends)
        return TunnelReading(float(second), sent, received)

    def losing_at(self) -> int | None:
        """Return when copies begin, or None."""
        history: History = ()
        watch = Watch("lte", 0.0, copies=False)
        for second in range(1, SECONDS - 1):
            history = extended(history, self.read(second))
            evidence = certain_loss(history)
            if evidence is not None:
                watch = after_evidence(watch, evidence, float(second))
                decision = decide("phone", watch, float(second))
                assert decision is not None and decision.copies
                return second
        return None


def through(packets: list[Packet], random: Random, loss: float, delay_s: float = DELAY_S) -> SimulatedTunnel:
    arrived = [(at + delay_s, size) for at, size in packets if at < BEGINS_S or random.random() >= loss]
    return SimulatedTunnel(packets, arrived, random)


@pytest.mark.parametrize(("loss", "within_s"), [(0.04, COUNTED_S + 4), (0.15, 6)])
def test_call_loss_is_certain_within_seconds(loss: float, within_s: float) -> None:
    taken = []
    for seed in range(20):
        random = Random(seed)
        at = through(call(), random, loss).losing_at()
        assert at is not None and at > BEGINS_S
        taken.append(at - BEGINS_S)
    assert max(taken) <= 2 * within_s and sorted(taken)[len(taken) // 2] <= within_s, taken


@pytest.mark.parametrize("seed", range(20))
def test_clean_tunnel_shows_no_loss_for_any_traffic_and_delay(seed: int) -> None:
    random = Random(seed)
    for packets in (call(2), call(), call(900, SEGMENT), pages(random), upload(random), call() + pages(random)):
        assert through(packets, random, 0.0, random.choice((0.005, 0.03, 0.3))).losing_at() is None


def test_loss_of_half_a_percent_is_not_worth_copies() -> None:
    found = [through(call(), Random(seed), 0.005).losing_at() for seed in range(40)]
    assert found.count(None) >= 38, found


def test_merged_packets_do_not_count_as_lost() -> None:
    sent = call(500, SEGMENT)
    merged = [(at + DELAY_S, 2 * SEGMENT - 66) for at, _ in sent[::2]]
    assert SimulatedTunnel(sent, merged, Random(1)).losing_at() is None


def test_dropped_long_probes_are_no_loss_of_a_call() -> None:
    sent = call() + [(BEGINS_S + number * 0.2, LONG_PROBE) for number in range(40)]
    arrived = [(at + DELAY_S, size) for at, size in call()]
    assert SimulatedTunnel(sent, arrived, Random(1)).losing_at() is None


def test_counter_reset_is_no_loss() -> None:
    whole = TunnelReading(1.0, PacketCounters(1000, 10_000), PacketCounters(1000, 10_000))
    anew = TunnelReading(2.0, PacketCounters(1050, 10_500), PacketCounters(3, 30))
    assert extended((whole,), anew) == (anew,)


def test_one_probe_a_second_detects_loss_within_the_stated_time() -> None:
    taken = []
    for seed in range(100):
        random, watch, now = Random(seed), Watch("lte", 0.0, copies=False), 0.0
        while decide("phone", watch, now) is None:
            now += 1.0
            lost = random.random() < 1 - (1 - SLOW_LOSS) ** 2  # the probe, or its answer
            watch = after_evidence(watch, Evidence(Source.PROBES, 1.0, LossCounts(1, int(lost))), now)
        taken.append(now)
    assert 0.7 * SLOW_S < sorted(taken)[50] < 1.3 * SLOW_S
