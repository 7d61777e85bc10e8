# SPDX-License-Identifier: Apache-2.0
"""The capacity of an access point is measured, follows changes and is not held down by caps."""

from __future__ import annotations

from random import Random

import pytest

from controller.policy.bandwidth.rates import FusedRate, Method
from controller.policy.caps import flows
from controller.policy.caps.capacity import KEPT_S, MOST_BPS, AirRate, Use
from controller.policy.caps.flows import PACKET_BYTES, PAYLOAD_BYTES, TcpFlow, TerminalDelivery
from tests.controller.shared_link import Sender, SharedLink

PHASE_S = 40.0
FLOWS = [
    *[pytest.param([rtt_s], id=f"1 at {rtt_s * 1000:.0f} ms") for rtt_s in (0.004, 0.256)],
    *[pytest.param([rtt_s] * 5, id=f"5 at {rtt_s * 1000:.0f} ms") for rtt_s in (0.004, 0.064, 0.256)],
    pytest.param([0.004, 0.256, 0.016, 0.064], id="4 to 256 ms"),
]


def changing(seconds: float) -> float:
    return (20e6, 8e6, 30e6)[min(2, int(seconds / PHASE_S))]


def steady(seconds: float) -> float:
    return 20e6


@pytest.mark.parametrize("rtts", FLOWS)
def test_capacity_follows_changes_without_a_long_queue(rtts: list[float]) -> None:
    link = SharedLink([Sender(rtt_s) for rtt_s in rtts], changing)
    for number, bandwidth_bps in enumerate((20e6, 8e6, 30e6)):
        link.run(PHASE_S - 5)
        assert 0.94 * bandwidth_bps <= link.bandwidth_bps <= 2 * bandwidth_bps, (
            f"phase {number}: at most one trial above"
        )
        link.run(5)
        assert link.utilised(5) >= 0.95
        assert link.queued_s(5) <= 0.012 + 0.15 * max(rtts) + 2 * len(rtts) * 12_000 / bandwidth_bps
    assert link.place.meter is not None and link.place.meter.rate.least_bps == pytest.approx(30e6, rel=0.06)


@pytest.mark.parametrize("begins_s", [0.5, 1.0, 1.5, 2.0])
def test_capacity_drop_during_a_trial_does_not_raise_caps(begins_s: float) -> None:
    """A small drop begins a trial, and a large drop follows within it. A release is tried first: slower air looks
    like a sender without a cap.
    """
    fell_s = 20.0

    def falling(seconds: float) -> float:
        return 20e6 if seconds < fell_s else 16e6 if seconds < fell_s + 1.5 + begins_s else 6e6

    link = SharedLink([Sender(0.064)] * 1, falling)
    link.run(fell_s + 1.5 + begins_s + 17)
    assert link.bandwidth_bps <= 1.25 * 6e6 and link.queued_s(0.5) < 0.15


@pytest.mark.parametrize("rtt_s", [0.004, 0.064])
@pytest.mark.parametrize("told_bps", [4e6, 18e6, 20e6, 40e6, 1e12])
def test_capacity_corrects_a_wrong_train_rate_within_40_s(told_bps: float, rtt_s: float) -> None:
    link = SharedLink([Sender(rtt_s) for _ in range(2)], steady)
    link.trains = FusedRate(told_bps, 0.9 * told_bps, 1.1 * told_bps, link.now, (Method.TRAINS,))
    link.run(1)
    assert link.bandwidth_bps >= told_bps and any(map(link.place.windows, link.senders))
    link.run(40)
    assert 0.94 * 20e6 <= link.bandwidth_bps <= 2 * 20e6 and link.utilised(5) >= 0.95
    assert link.place.meter is not None and not link.place.meter.rate.probed


@pytest.mark.parametrize(("rtt_s", "plain_s"), [(0.004, 0.02), (0.016, 0.03), (0.064, 0.06)])
def test_capacity_trials_recover_when_round_trips_are_long(rtt_s: float, plain_s: float) -> None:
    link = SharedLink([Sender(rtt_s, plain_s=plain_s) for _ in range(2)], steady)
    link.run(100)
    used = []
    for _ in range(6):
        link.run(10)
        used.append(link.utilised(10))
    assert sum(used) / len(used) > 0.85 and link.queued_s(60) < 0.1


def test_capacity_does_not_fall_when_a_sender_sends_little() -> None:
    link = SharedLink([Sender(0.016)], steady)
    link.run(20)
    (one,) = link.senders.values()
    one.most_bps = 3e6
    link.run(60)
    assert link.bandwidth_bps >= 0.94 * 20e6
    one.most_bps = float("inf")
    link.run(5)
    assert link.utilised(3) > 0.95


def test_capacity_survives_a_pause_and_expires_after_a_long_one() -> None:
    rate = AirRate(bps=20e6, least_bps=19e6, at=100.0)
    assert rate.after([], 0, 100.0 + KEPT_S).bps == 20e6
    assert rate.after([Use("laptop", 100.0)], 1, 101.0 + KEPT_S).bps is None


def test_capacity_trial_ends_when_a_terminal_joins() -> None:
    link = SharedLink([Sender(0.064)], steady)
    link.run(20)
    assert link.place.meter is not None
    while link.place.meter.rate.trial is None:
        link.run(0.1)
    rate = link.place.meter.rate
    assert rate.trial is not None and rate.bps is not None and rate.bps > 1.05 * rate.trial.base_bps
    uses = [Use("laptop", 9e6, 9.5e6, 60), Use("tablet", 9e6, 9.5e6, 60)]
    joined = rate.after(uses, 2, link.now)
    assert joined.trial is None and joined.bps == rate.trial.base_bps


def random_use(name: str, random: Random) -> Use:
    bps = random.choice([0.0, random.random() * 1e7, 1e6, 1e13])
    granted_bps, segments = random.choice([None, 1e6, 2e7]), random.randrange(40)
    return Use(name, bps, granted_bps, segments, random.choice([None, 5000, 10**6]), random.choice([None, 1, 4000]))


def test_capacity_is_none_or_positive_for_random_use() -> None:
    random = Random(3)
    for _ in range(20):
        rate, now = AirRate(), 0.0
        for _ in range(400):
            now += random.choice([0.05, 0.25, 1.0]) if random.random() < 0.99 else KEPT_S
            uses = [random_use(name, random) for name in "abcd" if random.random() < 0.9]
            rate = rate.after(uses, random.choice([2, 2, 2, 3]), now)
            assert rate.bps is None or 0 < rate.bps <= MOST_BPS


def test_capacity_recovers_from_a_false_byte_count() -> None:
    link = SharedLink([Sender(0.016), Sender(0.016)], steady)
    link.run(20)
    (name, liar), *_ = link.senders.items()
    liar.bytes += 1e12
    link.run(1)
    assert link.bandwidth_bps > 1e9
    link.run(15)
    assert link.bandwidth_bps <= 1.25 * 20e6 and link.place.ruling.caps[name].most_segments is not None


# Delivery rates


def flow(bytes_sent: int, port: int = 5000) -> TcpFlow:
    return TcpFlow(("10.1.0.1", port, "203.0.113.4", 443), 0, bytes_sent, 4000, 4000)


def delivery_of(*bytes_sent: int, seconds: float = 0.25) -> TerminalDelivery:
    one = None
    for number, sent in enumerate(bytes_sent):
        one = flows.delivery_after(one, [flow(sent)], seconds, float(number))
    assert one is not None
    return one


def test_delivery_rate_spans_a_second_and_includes_headers() -> None:
    assert delivery_of(0, 1000, 2000, 3000).bps is None
    for begins in (0, 500_000):
        told = delivery_of(0, *range(begins, begins + 5000, 1000))
        assert told.bps == pytest.approx(8 * 4000 * PACKET_BYTES / PAYLOAD_BYTES)


def test_delivery_ignores_first_counts_and_impossible_ones() -> None:
    one = delivery_of(0, 1000, 2000, 3000, 4000)
    more = flows.delivery_after(one, [flow(5000), flow(10**9, 5001)], 0.25, 6.0)
    assert more.bps == one.bps
    assert flows.delivery_after(one, [flow(0)], 0.25, 6.0).bps == pytest.approx((one.bps or 0) * 3 / 4)
    assert flows.delivery_after(one, [flow(10**17)], 0.25, 6.0).bps is not None
    assert flows.delivery_after(one, [flow(10**9)], 0.0, 6.0).bps is None, "a report of zero duration"
