# SPDX-License-Identifier: Apache-2.0
"""One direction of an emulated link follows its shape to the nanosecond in virtual time."""

from __future__ import annotations

import ctypes
import math
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from virtual_way import MS, NEVER, DepartedPacket, VirtualLink, library, load

MANY = 100_000
SIGMAS = 4.5
MBIT_1000_BYTES_NS = 8 * MS  # the time of 1000 bytes at 1 Mbit/s


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return load(tmp_path_factory.mktemp("way"))


def fates(way: VirtualLink, count: int = MANY) -> list[bool]:
    """Return whether each of `count` packets passes."""
    passed = []
    for number in range(count):
        passed.append(way.arrive(number, number))
        way.leave(number)
    return passed


def test_a_packet_leaves_after_transmission_and_delay(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, rate_bps=1_000_000, delay_ns=10 * MS)
    assert way.due() == NEVER
    for number in range(3):
        assert way.arrive(number, 5 * MS)
    due = [5 * MS + 10 * MS + (number + 1) * MBIT_1000_BYTES_NS for number in range(3)]
    assert way.due() == due[0]
    assert way.leave(due[0] - 1) == []
    assert way.leave(due[2]) == [DepartedPacket(number, at) for number, at in enumerate(due)]
    assert way.due() == NEVER


def test_departure_times_do_not_depend_on_polling(code: ctypes.CDLL) -> None:
    """Departure times depend on arrivals and the rate, not on when the program runs."""
    often, rarely = (VirtualLink(code, rate_bps=1_000_000, delay_ns=3 * MS) for _ in range(2))
    seen = []
    for number in range(50):
        now = number * 5 * MS
        often.arrive(number, now)
        rarely.arrive(number, now)
        seen += often.leave(now)
    seen += often.leave(1000 * MS)
    assert rarely.leave(1000 * MS) == seen


def test_an_idle_link_saves_up_no_rate(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, rate_bps=1_000_000)
    way.arrive(0, 0)
    way.arrive(1, 100 * MS)
    assert [left.due_ns for left in way.leave(200 * MS)] == [MBIT_1000_BYTES_NS, 100 * MS + MBIT_1000_BYTES_NS]


def test_a_full_queue_drops_new_packets(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, rate_bps=1_000_000, queue_bytes=3000)
    assert [way.arrive(number, 0) for number in range(5)] == [True, True, True, False, False]
    assert not way.arrive(5, MBIT_1000_BYTES_NS - 1)
    assert way.arrive(6, MBIT_1000_BYTES_NS)  # the first has left
    assert not way.arrive(7, MBIT_1000_BYTES_NS)
    assert [left.number for left in way.leave(NEVER)] == [0, 1, 2, 6]
    assert (way.counters.in_packets, way.counters.out_packets, way.counters.dropped_packets) == (8, 4, 4)


def test_delayed_packets_take_no_room_in_the_queue(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, rate_bps=1_000_000, queue_bytes=1000, delay_ns=1000 * MS)
    assert all(way.arrive(number, number * MBIT_1000_BYTES_NS) for number in range(100))
    assert len(way.leave(NEVER)) == 100


def test_the_number_of_delayed_packets_is_bounded(code: ctypes.CDLL) -> None:
    """With a delay and no rate, only memory would limit the packets in flight."""
    way = VirtualLink(code, delay_ns=1000 * MS)
    kept = sum(way.arrive(number, number) for number in range(20_000))
    assert 10_000 < kept < 20_000
    assert way.counters.dropped_packets == 20_000 - kept


def test_jitter_is_bounded_and_keeps_the_order(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, delay_ns=10 * MS, jitter_ns=4 * MS)
    for number in range(1000):
        way.arrive(number, number * 5 * MS)  # farther apart than the jitter: each delay is drawn independently
    extra = [left.due_ns - left.number * 5 * MS - 10 * MS for left in way.leave(NEVER)]
    assert min(extra) >= 0
    assert max(extra) < 4 * MS
    assert sum(extra) / len(extra) == pytest.approx(2 * MS, rel=0.1)
    for number in range(1000):
        way.arrive(number, 10_000 * MS + number)
    left = way.leave(NEVER)
    assert [each.number for each in left] == list(range(1000))
    assert [each.due_ns for each in left] == sorted(each.due_ns for each in left)


@pytest.mark.parametrize("chance", [0.001, 0.1, 0.5])
def test_independent_loss_is_within_its_binomial_interval(code: ctypes.CDLL, chance: float) -> None:
    passed = fates(VirtualLink(code, loss=chance))
    spread = SIGMAS * math.sqrt(MANY * chance * (1 - chance))
    assert abs(passed.count(False) - MANY * chance) < spread
    pairs = sum(not first and not second for first, second in pairwise(passed))
    assert abs(pairs - MANY * chance**2) < SIGMAS * math.sqrt(MANY * chance**2) + 1


@pytest.mark.parametrize(("p", "r"), [(0.01, 0.25), (0.001, 0.1), (0.2, 0.8)])
def test_bursts_follow_the_gilbert_model(code: ctypes.CDLL, p: float, r: float) -> None:
    passed = fates(VirtualLink(code, p=p, r=r, loss_bad=1.0))
    lengths = [len(list(run)) for fate, run in groupby(passed) if not fate]
    expected = MANY * p * r / (p + r)  # each burst ends once
    # Lengths are geometric: mean 1/r, variance (1-r)/r².
    assert sum(lengths) / len(lengths) == pytest.approx(1 / r, abs=SIGMAS * math.sqrt((1 - r) / len(lengths)) / r)
    assert len(lengths) == pytest.approx(expected, abs=SIGMAS * math.sqrt(expected))


def test_both_gilbert_states_have_their_loss(code: ctypes.CDLL) -> None:
    p, r, good, bad = 0.01, 0.04, 0.02, 0.5
    lost = fates(VirtualLink(code, p=p, r=r, loss_good=good, loss_bad=bad)).count(False)
    assert lost / MANY == pytest.approx((r * good + p * bad) / (p + r), rel=0.1)


def test_loss_of_one_drops_all_and_of_zero_nothing(code: ctypes.CDLL) -> None:
    assert not any(fates(VirtualLink(code, loss=1.0), 1000))
    assert all(fates(VirtualLink(code), 1000))
    way = VirtualLink(code, p=1.0, r=1e-12, loss_bad=1.0)
    assert not any(fates(way, 1000))
    way.shape(p=0.0)  # the channel becomes good again
    assert all(fates(way, 1000))


def test_a_new_rate_applies_to_unsent_bits(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, rate_bps=1_000_000)
    way.arrive(0, 0)
    way.arrive(1, 0)
    way.shape(now_ns=MBIT_1000_BYTES_NS // 4, rate_bps=2_000_000)
    first = MBIT_1000_BYTES_NS // 4 + MBIT_1000_BYTES_NS * 3 // 8
    assert [left.due_ns for left in way.leave(NEVER)] == [first, first + MBIT_1000_BYTES_NS // 2]


@pytest.mark.parametrize("rate_bps", [0, 1_000_000_000])
def test_a_raised_rate_sends_waiting_packets_at_once(code: ctypes.CDLL, rate_bps: int) -> None:
    way = VirtualLink(code, rate_bps=1000)
    way.arrive(0, 0)
    way.shape(now_ns=5000 * MS, rate_bps=rate_bps)
    assert 5000 * MS <= way.due() <= 5001 * MS


def test_a_shorter_delay_keeps_the_order(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, delay_ns=50 * MS)
    way.arrive(0, 0)
    way.shape(now_ns=MS, delay_ns=5 * MS)
    way.arrive(1, MS)
    way.arrive(2, 60 * MS)
    assert way.leave(NEVER) == [DepartedPacket(0, 50 * MS), DepartedPacket(1, 50 * MS), DepartedPacket(2, 65 * MS)]


def both_ways(code: ctypes.CDLL, **shape: float) -> tuple[VirtualLink, VirtualLink]:
    up, down = VirtualLink(code, rate_bps=1_000_000, **shape), VirtualLink(code, rate_bps=1_000_000, **shape)
    up.share(down)
    return up, down


def test_directions_that_share_a_channel_send_in_turns(code: ctypes.CDLL) -> None:
    up, down = both_ways(code)
    for number in range(3):
        assert up.arrive(number, 0)
    assert down.arrive(0, 1)
    assert (up.due(), down.due()) == (MBIT_1000_BYTES_NS, 2 * MBIT_1000_BYTES_NS)
    assert down.leave(NEVER) == [DepartedPacket(0, 2 * MBIT_1000_BYTES_NS)]
    assert up.leave(NEVER) == [
        DepartedPacket(number, turn * MBIT_1000_BYTES_NS) for number, turn in enumerate((1, 3, 4))
    ]


def test_a_channel_shared_by_one_direction_is_its_own(code: ctypes.CDLL) -> None:
    up, down = both_ways(code)
    down.shape(shared=0)
    for way in (up, down):
        way.arrive(0, 0)
        assert way.leave(NEVER) == [DepartedPacket(0, MBIT_1000_BYTES_NS)]


@pytest.mark.parametrize(("waiting", "part"), [(1, 1.0), (2, 0.9), (5, 0.6), (30, 0.1)])
def test_each_further_waiting_sender_reduces_the_rate(code: ctypes.CDLL, waiting: int, part: float) -> None:
    up, down = both_ways(code, contention=0.1)
    down.arrive(0, 0, source=100)
    for source in range(1, waiting):
        up.arrive(source, 1, source=source)
        up.arrive(100 + source, 1, source=source)
    (first,) = down.leave(MBIT_1000_BYTES_NS * 10)[:1]
    assert first.due_ns == pytest.approx(MBIT_1000_BYTES_NS / part, rel=1e-6)


def test_an_idle_sender_does_not_contend(code: ctypes.CDLL) -> None:
    way = VirtualLink(code, rate_bps=1_000_000, contention=0.5)
    for source in range(2):
        way.arrive(source, 0, source=source)
    assert way.leave(NEVER) == [DepartedPacket(0, 2 * MBIT_1000_BYTES_NS), DepartedPacket(1, 3 * MBIT_1000_BYTES_NS)]


def test_quantiles_of_lateness_are_within_a_bucket(tmp_path: Path) -> None:
    lateness = library(tmp_path, "lateness.c")
    lateness.lateness_quantile.restype = ctypes.c_uint64
    kept = ctypes.create_string_buffer(8192)
    for us in range(1, 10_001):
        lateness.lateness_note(kept, ctypes.c_int64(us * 1000), ctypes.c_uint64(9000))
    packets, stalls, longest = (ctypes.c_uint64.from_buffer(kept, 8 * field).value for field in range(3))
    assert (packets, stalls, longest) == (10_000, 1000, 10_000)
    for part in (0.001, 0.5, 0.99, 1.0):
        told = lateness.lateness_quantile(kept, ctypes.c_double(part))
        assert part * 10_000 <= told <= part * 10_000 * 17 / 16
