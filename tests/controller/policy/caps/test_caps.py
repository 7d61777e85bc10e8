# SPDX-License-Identifier: Apache-2.0
"""The window of each terminal is its share of the capacity, and false reports of others never shrink it."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.config import AccessPoint, CapRule, CapTables
from controller.policy.caps.flows import TcpFlow
from controller.policy.caps.sharers import PERIOD_S, REMEMBERED_S, after_report
from controller.policy.caps.terminal_cap import BLOCK_BYTES, Ruling, TerminalCap, decide
from controller.policy.caps.windows import MOST_SEGMENTS, SEGMENT_BYTES, SEGMENT_US, Window
from controller.policy.caps.witnesses import OTHERS_FACTOR, OTHERS_MORE_US
from tests.controller.sharing_terminals import (
    BANDWIDTH_BPS,
    FAR,
    IDEAL,
    NEAR,
    AccessPointModel,
    TcpStream,
    address,
    equal,
    paper,
)

OFF = replace(IDEAL, rule=CapRule.OFF)
ME = address(0)


def capacity_segments(rtt_us: float, bandwidth_bps: int = BANDWIDTH_BPS) -> float:
    return bandwidth_bps * rtt_us / 1e6 / 8 / SEGMENT_BYTES


def only_window(cap: TerminalCap) -> Window:
    (window,) = cap.windows.values()
    return window


FORGOTTEN_REPORTS = int(3 * REMEMBERED_S / PERIOD_S)


def share_segments(rtt_us: float, active: int, bandwidth_bps: int = BANDWIDTH_BPS) -> int:
    """Return one terminal's share in segments, with 2 ms spare (at most the round trip) and one whole segment."""
    plain, roomy = (ceil((capacity_segments(us, bandwidth_bps) + 1) / active - 1e-9) for us in (rtt_us, rtt_us + 2000))
    return roomy if (roomy + 1) * active <= 2 * capacity_segments(rtt_us, bandwidth_bps) + 1e-9 else plain


@pytest.mark.parametrize("terminals", [1, 2, 5, 10, 40])
@pytest.mark.parametrize("rtt_us", [4000, 16_000, 64_000, 256_000])
def test_ideal_window_is_the_share_and_its_floor_one_less(terminals: int, rtt_us: int) -> None:
    ruling = AccessPointModel().passes(equal(terminals, TcpStream(rtt_us=rtt_us)))
    assert ruling.active == terminals
    most = max(2, share_segments(rtt_us, terminals) + 1)
    for cap in ruling.caps.values():
        assert only_window(cap) == Window(most, most - 1) and cap.active
        assert (cap.most_segments, cap.least_segments, cap.connections) == (most, most - 1, 1)


def test_window_depends_on_the_round_trip_to_each_host() -> None:
    cap = AccessPointModel().passes({ME: [TcpStream(NEAR, 4000), TcpStream(FAR, 256_000)]}).caps[ME]
    near, far = cap.windows[ME, NEAR], cap.windows[ME, FAR]
    assert (near.most, far.most) == (6, ceil((share_segments(256_000, 1) + 1) / 2))
    assert cap.most_segments == near.most + far.most and cap.connections == 2
    queued = AccessPointModel().passes({ME: [TcpStream(NEAR, 4000, 8000), TcpStream(FAR, 64_000)]}).caps[ME]
    assert queued.ratio == 2.0, "that of the worst path"
    fast = AccessPointModel(replace(IDEAL, bandwidth_bps=10**12))
    assert only_window(fast.passes(equal(1, TcpStream(rtt_us=2_000_000))).caps[ME]).most == MOST_SEGMENTS


def test_connections_share_the_window_or_are_paced() -> None:
    far = AccessPointModel().passes(equal(5, *[TcpStream(FAR, 64_000)] * 4)).caps[ME]
    assert only_window(far) == Window(6, 5), "ceil((ceil((110 + 1) / 5) + 1) / 4)"
    ruling = AccessPointModel().passes(equal(5, *[TcpStream()] * 4))
    near = only_window(ruling.caps[ME])
    assert near.most == 2 and 0.9 * BANDWIDTH_BPS / 20 < near.pace_bps < BANDWIDTH_BPS / 20 * 1448 / 1514
    assert only_window(AccessPointModel().passes(equal(10, TcpStream())).caps[ME]).pace_bps == 0


def test_idle_terminals_and_connections_get_no_share() -> None:
    alone = AccessPointModel().passes({ME: [TcpStream()]}).caps[ME]
    among = AccessPointModel().passes(
        {ME: [TcpStream(), *[TcpStream(bps=0)] * 20], **{address(n): [TcpStream(bps=0)] for n in range(1, 9)}}
    )
    assert among.caps[ME].windows == alone.windows and among.active == 1
    idle = among.caps[address(1)]
    assert not idle.active and not idle.windows and idle.most_segments is None


def test_terminal_counts_from_its_first_report_until_silent() -> None:
    air = AccessPointModel()
    assert only_window(air.passes({ME: [TcpStream(FAR, 256_000)], address(1): []}).caps[ME]).most == 432
    both = equal(2, TcpStream(FAR, 256_000))
    assert {only_window(cap).most for cap in air.passes(both, reports=1).caps.values()} == {217}
    stopped = {ME: both[ME], address(1): [replace(both[ME][0], bps=0)]}
    assert only_window(air.passes(stopped, reports=2).caps[ME]).most == 432
    assert air.passes(both, reports=1).active == 2
    assert only_window(air.passes({ME: both[ME]}, reports=4).caps[ME]).most == 432, "the other one is silent"
    assert address(1) not in air.passes({ME: both[ME]}, reports=1).caps


# The floor


def floors_for(*srtts_us: int, rtt_us: int = 4000) -> list[int]:
    air = AccessPointModel()
    streams = [equal(1, TcpStream(rtt_us=rtt_us, srtt_us=srtt_us)) for srtt_us in srtts_us]
    return [only_window(air.passes(each).caps[ME]).least for each in streams]


def test_floor_is_absent_while_a_queue_persists() -> None:
    assert floors_for(5000, 48_000, 49_000, 40_000, 36_000, 5000) == [11, 11, 0, 0, 11, 11]
    assert floors_for(260_000, 300_000, rtt_us=256_000) == [431, 431], "no queue"


# Hysteresis


def caps_for(*rtts_us: int, access_point: AccessPoint = IDEAL) -> list[int]:
    """Return the caps of one terminal for a series of shortest round trips."""
    ruling, most = None, []
    for rtt_us in rtts_us:
        air = AccessPointModel()
        air.passes(equal(1, TcpStream(FAR, rtt_us)))
        ruling = decide(access_point, tuple(air.sharers.values()), ruling, air.now)
        most.append(only_window(ruling.caps[ME]).most)
    return most


def test_cap_ignores_small_changes_of_the_round_trip() -> None:
    assert caps_for(256_000, 250_000, 256_300, 244_500, 240_000) == [432, 432, 432, 432, 406]
    assert caps_for(240_000, 241_300, 300_000, 320_000) == [406, 406, 406, 539]


def test_cap_changes_once_when_the_round_trip_oscillates() -> None:
    assert caps_for(*[4590, 4610] * 4) == [13] * 8
    assert caps_for(*[4610, 4590] * 4) == [14, *[13] * 7]
    cases = caps_for(99_000, 100_000, 99_000, 96_000, 94_000, access_point=paper(CapTables.JELLY_BEAN))
    assert cases == [90, 555, 555, 555, 90]


def test_new_rule_or_bandwidth_takes_effect_at_once() -> None:
    air = AccessPointModel()
    air.passes(equal(1, TcpStream(FAR, 256_000)))
    for bandwidth_bps in (19_600_000, 20_000_000, 100_000_000):
        air.access_point = replace(IDEAL, bandwidth_bps=bandwidth_bps)
        assert only_window(air.decide().caps[ME]).most == share_segments(256_000, 1, bandwidth_bps) + 1
    air.access_point = OFF
    assert air.decide() == Ruling(OFF)


# Missing data means no cap


def test_cap_is_absent_without_a_round_trip() -> None:
    before = after_report(None, ME, {ME}, [], 100.0)
    unknown = after_report(before, ME, {ME}, [TcpFlow((ME, 1, NEAR, 80), 0, 50_000, None, None)], 100.25)
    cap = decide(IDEAL, [unknown], None, 100.25).caps[ME]
    assert cap.active and not cap.windows and cap.reason == "no cap: its shortest round trip is not known"


# MPTCP


def test_subflows_share_a_window_by_the_path_in_use() -> None:
    other, now = "10.2.0.1", 100.0
    sharer, sent = after_report(None, ME, {ME, other}, [], now), [0, 0]

    def windows(near_bytes: int, far_bytes: int) -> dict[str, int]:
        nonlocal sharer, now
        now += PERIOD_S
        sent[0] += near_bytes
        sent[1] += far_bytes
        flows = [
            TcpFlow((ME, 1, NEAR, 80), 7, sent[0], 4000, 4000),
            TcpFlow((other, 2, NEAR, 80), 7, sent[1], 64_000, 64_000),
        ]
        sharer = after_report(sharer, ME, {ME, other}, flows, now)
        cap = decide(IDEAL, [sharer], None, now).caps[ME]
        assert cap.connections == 1 and cap.most_segments == max(one.most for one in cap.windows.values())
        return {pair[0]: one.most for pair, one in cap.windows.items()}

    windows(50_000, 50_000)
    assert windows(50_000, 0) == {ME: 12, other: 12}
    assert windows(0, 50_000) == {ME: 112, other: 112}, "the path in use has changed"
    assert windows(50_000, 50_000) == {ME: 112, other: 112}


# False reports

HONEST = [TcpStream(NEAR, 16_000), TcpStream(FAR, 64_000)]
LIES = st.lists(
    st.builds(
        TcpStream,
        st.sampled_from([NEAR, FAR, "10.9.9.9", ""]),
        st.integers(-5, 10**5) | st.sampled_from([0, 1, 60_000_000, 10**18]),
        st.none() | st.integers(-5, 10**8) | st.just(10**18),
        st.integers(0, 10**9),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=12,
)


@given(st.integers(1, 6), LIES)
def test_false_report_does_not_lower_the_fair_share_of_others(honest: int, lies: list[TcpStream]) -> None:
    everybody = {address(number): HONEST for number in range(honest)}
    ruling = AccessPointModel().passes({**everybody, address(99): lies})
    fair = AccessPointModel().passes({address(number): HONEST for number in range(honest + 1)})
    for terminal in everybody:
        for pair, window in ruling.caps[terminal].windows.items():
            assert window.most >= fair.caps[terminal].windows[pair].most
        assert ruling.caps[terminal].windows.keys() == fair.caps[terminal].windows.keys()
        assert not ruling.caps[terminal].doubts


def test_ten_thousand_connections_count_as_one_terminal() -> None:
    liar = {address(9): [TcpStream(NEAR, 1)] * 10_000}
    ruling = AccessPointModel().passes({**equal(1, TcpStream(FAR, 64_000)), **liar})
    assert ruling.active == 2 and only_window(ruling.caps[ME]).most == share_segments(64_000, 2) + 1
    cap = ruling.caps[address(9)]
    assert cap.doubted and only_window(cap).pace_bps * cap.connections <= BANDWIDTH_BPS / 2


def test_exaggerated_round_trip_is_bounded_and_reported() -> None:
    air, liar = AccessPointModel(), address(9)
    streams = {**equal(3, TcpStream(NEAR, 4000)), liar: [TcpStream(NEAR, 1_900_000)]}
    cap = air.passes(streams, reports=6).caps[liar]
    bound_us = OTHERS_FACTOR * 4000 + OTHERS_MORE_US
    assert only_window(cap).most == share_segments(bound_us, 4) + 1
    assert cap.doubted == 1 and "it reports at least 1900.0 ms to 10.9.0.4" in cap.doubts[0]
    assert not air.passes({**streams, liar: [TcpStream(FAR, 64_000)]}, reports=6).caps[liar].doubts


@pytest.mark.parametrize(
    ("early_us", "late_us", "counted_us"),
    [pytest.param(22_000, 22_000, 4000, id="queue"), pytest.param(8000, 24_000, 20_000, id="longer path, no queue")],
)
def test_late_joiner_gets_the_round_trip_of_earlier_ones_in_a_queue(
    early_us: int, late_us: int, counted_us: int
) -> None:
    early, late = TcpStream(rtt_us=4000, srtt_us=early_us), TcpStream(rtt_us=20_000, srtt_us=late_us)
    cap = AccessPointModel().passes({**equal(4, early), address(9): [late]}).caps[address(9)]
    assert cap.most_segments == share_segments(counted_us, 5) + 1 and not cap.doubts


def test_false_queue_does_not_shrink_a_longer_path() -> None:
    near, far = TcpStream(rtt_us=4000, srtt_us=5000), TcpStream(rtt_us=40_000, srtt_us=42_000)
    lie = TcpStream(NEAR, 1, 30_000_000)
    ruling = AccessPointModel().passes({ME: [far], address(1): [near], address(2): [lie]})
    assert ruling.caps[ME].most_segments == share_segments(40_000, 3) + 1


def test_agent_of_two_terminals_counts_as_one_witness() -> None:
    air, liars = AccessPointModel(), (address(8), address(9))
    streams = {ME: [TcpStream(NEAR, 16_000)], **{each: [TcpStream(NEAR, 1, 30_000_000)] for each in liars}}
    air.passes(streams)
    who = [replace(each, reporter="liar" if each.terminal in liars else "") for each in air.sharers.values()]
    ruling = decide(air.access_point, who, None, air.now)
    assert ruling.caps[ME].most_segments == share_segments(16_000, 3) + 1


@pytest.mark.parametrize(("terminals", "rtt_us"), [(1, 4000), (10, 4000), (3, 64_000)])
def test_forgotten_minimum_round_trip_does_not_raise_caps(terminals: int, rtt_us: int) -> None:
    air = AccessPointModel()
    caps = air.passes(equal(terminals, TcpStream(rtt_us=rtt_us))).caps
    standing_us = max(rtt_us, int(sum(cap.most_segments or 0 for cap in caps.values()) * SEGMENT_US / BANDWIDTH_BPS))
    forgot = air.passes(equal(terminals, TcpStream(rtt_us=standing_us)), reports=FORGOTTEN_REPORTS).caps
    assert [cap.windows for cap in forgot.values()] == [cap.windows for cap in caps.values()]
    longer = air.passes(equal(terminals, TcpStream(rtt_us=256_000)), reports=FORGOTTEN_REPORTS).caps[ME]
    assert only_window(longer).most == share_segments(256_000, terminals) + 1, "longer than any own queue"


def test_segments_to_a_far_host_do_not_count_as_a_near_queue() -> None:
    """The queue can hold 15 ms, although sending all segments would take 140 ms."""
    air, near = AccessPointModel(), [address(number) for number in range(5)]
    far = {address(number): [TcpStream(FAR, 256_000)] for number in range(5, 10)}
    air.passes({each: [TcpStream(rtt_us=4000)] for each in near} | far)
    streams = {each: [TcpStream(rtt_us=60_000)] for each in near} | far
    caps = air.passes(streams, reports=FORGOTTEN_REPORTS).caps
    assert only_window(caps[ME]).most == share_segments(60_000, 10) + 1


def test_terminals_on_another_uplink_are_no_witnesses() -> None:
    air = AccessPointModel()
    air.uplink_of = {address(2): "satellite"}
    others = {address(number): [TcpStream(rtt_us=10_000, srtt_us=76_000)] for number in (0, 1)}
    cap = air.passes(others | {address(2): [TcpStream(rtt_us=300_000)]}).caps[address(2)]
    assert not cap.doubts and only_window(cap).most == share_segments(300_000, 3) + 1
    cap = air.passes(others | {address(2): [TcpStream(rtt_us=60_000)]}, reports=FORGOTTEN_REPORTS).caps[address(2)]
    assert only_window(cap).most == share_segments(60_000, 3) + 1, "its minimum is not from their queue"


@pytest.mark.parametrize("srtt_us", [60_000, 64_000])
def test_cap_rises_when_the_path_becomes_longer(srtt_us: int) -> None:
    """The kernel keeps reporting the shortest round trip that the connection ever had."""
    air = AccessPointModel()
    short = air.passes(equal(1, TcpStream(rtt_us=4000))).caps[ME].most_segments
    air.uplink_of = {ME: "lte"}
    for _ in range(2):
        cap = air.passes(equal(1, TcpStream(rtt_us=4000, srtt_us=srtt_us)), reports=12).caps[ME]
        assert short and only_window(cap).most >= share_segments(0.9 * 60_000, 1) > 4 * short
    assert only_window(cap).most <= share_segments(64_000, 1) + 1


@pytest.mark.parametrize("terminals", [1, 10])
def test_cap_stays_after_a_move_to_an_equally_long_uplink(terminals: int) -> None:
    air = AccessPointModel()
    before = air.passes(equal(terminals, TcpStream(rtt_us=4000))).caps
    standing_us = int(sum(cap.most_segments or 0 for cap in before.values()) * SEGMENT_US / BANDWIDTH_BPS)
    air.uplink_of = {address(number): "lte" for number in range(terminals)}
    after = air.passes(equal(terminals, TcpStream(rtt_us=4000, srtt_us=max(4000, standing_us))), reports=40).caps
    assert [cap.windows for cap in after.values()] == [cap.windows for cap in before.values()]


def test_two_other_terminals_are_witnesses() -> None:
    streams = {**equal(2, TcpStream(NEAR, 4000)), address(9): [TcpStream(NEAR, 1_900_000)]}
    cap = AccessPointModel().passes(streams, reports=6).caps[address(9)]
    assert only_window(cap).most == share_segments(OTHERS_FACTOR * 4000 + OTHERS_MORE_US, 3) + 1


def test_single_other_terminal_is_no_witness() -> None:
    ruling = AccessPointModel().passes({ME: [TcpStream(NEAR, 256_000)], address(1): [TcpStream(NEAR, 1)]})
    assert only_window(ruling.caps[ME]).most == share_segments(256_000, 2) + 1 and not ruling.caps[ME].doubts


# Random reports

RTTS = st.integers(200, 600_000)
ACCESS_POINTS = st.builds(
    AccessPoint,
    st.just("air"),
    st.integers(10**5, 10**9),
    st.sampled_from([CapRule.IDEAL, CapRule.PAPER]),
    st.sampled_from(list(CapTables)),
)
STREAMS = st.builds(
    TcpStream, st.sampled_from([NEAR, FAR]), RTTS, RTTS, st.just(10**6), st.sampled_from([0, 0, 1, 2]), st.booleans()
)
TERMINALS = st.dictionaries(st.integers(0, 20).map(address), st.lists(STREAMS, max_size=5), max_size=8)


@given(ACCESS_POINTS, st.lists(TERMINALS, min_size=1, max_size=4))
def test_window_has_two_segments_and_a_lower_floor(
    access_point: AccessPoint, rounds: list[dict[str, list[TcpStream]]]
) -> None:
    air = AccessPointModel(access_point)
    for streams in rounds:
        ruling = air.passes(streams, reports=2)
        assert ruling.active == sum(cap.active for cap in ruling.caps.values())
        for cap in ruling.caps.values():
            assert cap.reason and (cap.most_segments is None) == (not cap.windows)
            for window in cap.windows.values():
                assert 2 <= window.most <= MOST_SEGMENTS and 0 <= window.least <= window.most and window.pace_bps >= 0


@given(
    st.integers(10**5, 10**9),
    st.integers(200, 600_000),
    st.lists(st.integers(1, 8), min_size=1, max_size=12),
)
@settings(max_examples=60)
def test_windows_together_fill_the_capacity_and_little_more(
    bandwidth_bps: int, rtt_us: int, connections: list[int]
) -> None:
    air = AccessPointModel(replace(IDEAL, bandwidth_bps=bandwidth_bps))
    streams = {address(number): [TcpStream(NEAR, rtt_us)] * many for number, many in enumerate(connections)}
    caps = air.passes(streams).caps.values()
    total = sum(cap.most_segments or 0 for cap in caps)
    way = capacity_segments(rtt_us, bandwidth_bps)
    assert total <= max(2 * way, way + 1) + 2 * sum(connections)
    assert total >= capacity_segments(rtt_us, bandwidth_bps), "less would leave the air idle"
    assert sum(only_window(cap).pace_bps * cap.connections for cap in caps) <= bandwidth_bps
    for cap in caps:
        most = max(2 * way, way + 1) / len(connections)
        assert only_window(cap).pace_bps or (cap.most_segments or 0) <= most + 1 + cap.connections


# For people and programs


def test_block_size_shrinks_with_the_number_of_senders() -> None:
    blocks = [AccessPointModel().passes(equal(number, TcpStream())).block_bytes for number in (1, 2, 3, 10)]
    assert blocks == [256 << 10, 16 << 10, 8 << 10, 8 << 10]
    assert AccessPointModel().passes({ME: []}).block_bytes == BLOCK_BYTES[0], "it would be the only sender"
