# SPDX-License-Identifier: Apache-2.0
"""A terminal counts as a sharer until less than a second after its last bytes. False reports are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policy.caps import sharers
from controller.policy.caps.flows import MOST_BYTES, MOST_RTT_US, TcpFlow, TcpFlowKey, of_connections, of_passing, wrong
from controller.policy.caps.sharers import (
    DOUBTED_S,
    MOST_PAIRS,
    MOST_QUIET,
    PERIOD_S,
    REMEMBERED_S,
    STALLED_S,
    Sharer,
    after_report,
    silent,
)
from controller.protocol.reports import MOST_SUBFLOWS, Connection, Passing, Subflow

PHONE, SERVER = "10.1.0.2", "10.9.0.4"
PAIR = (PHONE, SERVER)


def key(port: int = 5000, terminal: str = PHONE, other: str = SERVER) -> TcpFlowKey:
    return (terminal, port, other, 80)


def flow(sent: int, port: int = 5000, rtt_us: int | None = 4000, waits: bool = False, token: int = 0) -> TcpFlow:
    return TcpFlow(key(port), token, sent, rtt_us, rtt_us, waits)


def sharer_after(*reports: list[TcpFlow], before: Sharer | None = None, start: float = 100.0) -> Sharer:
    """Return the sharer after these reports, one per period."""
    for number, flows in enumerate(reports):
        before = after_report(before, PHONE, {PHONE}, flows, start + number * PERIOD_S)
    assert before is not None
    return before


BULK = sharer_after([], [flow(50_000)])


def test_old_bytes_of_a_returning_connection_do_not_count() -> None:
    asleep = sharer_after([], [flow(3 * 10**6)], *[[]] * 4000)
    assert not asleep.active
    later = asleep.heard_at + PERIOD_S
    assert not sharer_after([flow(3 * 10**6 + 1)], before=asleep, start=later).active, "a keepalive"
    assert sharer_after([flow(3 * 10**6 + 50_000)], before=asleep, start=later).active
    another = sharer_after([flow(50_000)], before=asleep, start=later)
    assert another.active and not another.doubts.sentences, "a new connection with the same ports"


def test_bytes_before_the_first_report_do_not_count() -> None:
    assert not sharer_after([flow(10**9)]).active
    assert sharer_after([flow(10**9)], [flow(10**9 + 50_000)]).active


@pytest.mark.parametrize("bps", [0, 100, 8_000, 64_000])
def test_idle_sockets_and_shells_make_no_sharer(bps: int) -> None:
    reports = [[flow(10**6 + int(bps / 8 * PERIOD_S * number))] for number in range(40)]
    assert not any(sharer_after(*reports[:many]).active for many in range(1, 40))


def test_sharer_leaves_within_a_second_of_its_last_bytes() -> None:
    stopped = flow(50_000)
    counts = [sharer_after([], [stopped], *[[stopped]] * more).active for more in range(4)]
    assert counts == [True, True, False, False]
    assert (counts.index(False) + 1) * PERIOD_S < 1, "the last bytes are at most one period older than their report"


def test_sharer_stays_while_it_sends_now_and_then() -> None:
    sent, sharer = 50_000, BULK
    for number in range(2, 40):
        sent += 3_000 if number % 2 else 0
        sharer = after_report(sharer, PHONE, {PHONE}, [flow(sent)], 100 + number * PERIOD_S)
        assert sharer.active, number


def test_sharer_stays_while_an_acknowledgement_is_due() -> None:
    slow = replace(flow(50_000, rtt_us=750_000), waits=True)
    sharer, begun = sharer_after([], [slow]), 100 + PERIOD_S
    stayed = 0.0
    for number in range(1, 20):
        sharer = after_report(sharer, PHONE, {PHONE}, [slow], begun + number * PERIOD_S)
        stayed = number * PERIOD_S if sharer.active else stayed
    assert 0.75 <= stayed < 1.5 * 0.75 + PERIOD_S


def test_unacknowledged_data_keeps_a_sharer_only_briefly() -> None:
    dead = replace(flow(50_000, rtt_us=30_000_000), waits=True)
    counts = [sharer_after([], *[[dead]] * more).active for more in range(1, 12)]
    stayed_s = (counts.index(False) - 1) * PERIOD_S
    assert stayed_s == STALLED_S - PERIOD_S and not any(counts[counts.index(False) :])


def test_many_small_connections_make_a_sharer() -> None:
    reports = [[flow(1_000 * number, port) for port in range(50)] for number in range(4)]
    sharer = sharer_after(*reports)
    assert sharer.active and not sharer.live and sharer.live_connections == 0


def test_sharer_is_silent_after_three_missing_reports() -> None:
    assert not silent(BULK, BULK.heard_at + 3 * PERIOD_S)
    assert silent(BULK, BULK.heard_at + 3 * PERIOD_S + 0.01)
    again = after_report(BULK, PHONE, {PHONE}, [flow(10**9)], BULK.heard_at + 1.0)
    assert not again.active and again.least == BULK.least
    slow, lying = (after_report(None, PHONE, {PHONE}, [], 100.0, period_s=period_s) for period_s in (1.0, 1e9))
    assert not silent(slow, 102.9) and silent(slow, 103.1)
    assert silent(lying, 104.0), "an agent cannot extend its own lifetime"


def test_subflows_of_one_connection_count_once() -> None:
    second = TcpFlow(("10.1.9.2", 6000, SERVER, 80), 7, 0, 50_000, 50_000)
    own = {PHONE, "10.1.9.2"}
    sharer = after_report(None, PHONE, own, [], 100.0)
    sharer = after_report(sharer, PHONE, own, [flow(50_000, token=7), second], 100.25)
    assert sharer.live_connections == 1
    (live,) = sharer.live
    assert {path.pair for path in live.paths} == {PAIR, ("10.1.9.2", SERVER)}
    assert [path.pair for path in live.in_use] == [PAIR], "the other one is idle"


def test_ended_subflow_takes_no_bytes_from_its_connection() -> None:
    both = [flow(10**6, 5000, token=7), flow(10**6, 5001, token=7)]
    sharer = sharer_after(both, [flow(10**6 + 50_000, 5000, token=7)])
    assert sharer.active and not sharer.doubts.sentences


def joined(port: int, other: str = SERVER) -> TcpFlow:
    return TcpFlow(key(port, other=other), 0, 50_000, 4000, 4000, joined=True)


def test_gateway_counts_a_joined_subflow_only_if_alone() -> None:
    assert sharer_after([], [flow(50_000), joined(6000, "10.9.1.4")]).live_connections == 1
    assert sharer_after([], [joined(6000)]).live_connections == 1
    assert sharer_after([], [flow(50_000), *map(joined, range(6000, 6040))]).live_connections == 41
    liar = sharer_after([], [joined(6000, f"10.9.0.{number}") for number in range(1, 71)])
    assert liar.live_connections == 10, "false flags gain few connections"


# Round trips


def test_idle_connection_is_ignored_for_the_round_trip() -> None:
    idle = flow(10**6, 1, 1_000)
    assert sharer_after([idle], [idle, flow(1000, 2, 4000)]).min_rtt_us(PAIR) == 4000


def test_shortest_round_trip_is_remembered_for_a_while() -> None:
    sharer, now, sent = sharer_after([flow(0, rtt_us=1000)], [flow(1000, rtt_us=1000)]), 100.0 + PERIOD_S, 1000
    until = now
    while now < 100.0 + 3 * REMEMBERED_S + 2:
        now, sent = now + PERIOD_S, sent + 5000
        sharer = after_report(sharer, PHONE, {PHONE}, [flow(sent, rtt_us=9000)], now)
        until = now if sharer.min_rtt_us(PAIR) == 1000 else until
    assert REMEMBERED_S <= until - 100.0 <= 3 * REMEMBERED_S and sharer.min_rtt_us(PAIR) == 9000


# Impossible values


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ({"srtt_us": 0}, "an impossible round trip"),
        ({"srtt_us": MOST_RTT_US + 1}, "an impossible round trip"),
        ({"min_rtt_us": 0}, "an impossible minimum round trip"),
        ({"min_rtt_us": 10**18}, "an impossible minimum round trip"),
        ({"min_rtt_us": 50_000}, "a minimum round trip far above the smoothed one"),
        ({"bytes_sent": MOST_BYTES + 1}, "an impossible number of bytes"),
        ({"bytes_sent": -1}, "an impossible number of bytes"),
    ],
)
def test_impossible_flow_is_refused_and_reported(change: dict[str, Any], doubt: str) -> None:
    absurd = replace(flow(50_000, 6000), **change)
    sharer = sharer_after([], [absurd, flow(50_000)])
    assert sharer.live_connections == 1 and sharer.min_rtt_us(PAIR) == 4000
    assert sharer.doubts.total == 1
    assert sharer.doubts.sentences == (f"it reports {doubt} (1 time)",)


def test_connection_of_a_foreign_address_is_refused() -> None:
    sharer = sharer_after([], [TcpFlow(key(terminal="10.1.0.3"), 0, 50_000, 4000, 4000)])
    assert not sharer.active and sharer.doubts.sentences == (
        "it reports a connection from an address that is not its own (1 time)",
    )


@pytest.mark.parametrize(
    "other", ["", "::1", "127.0.0.1", "0.0.0.0", "224.0.0.1", "::ffff:10.9.0.4", "2001:db8::1", "nowhere"]
)
def test_connection_to_an_invalid_host_is_refused_and_reported(other: str) -> None:
    sharer = sharer_after([], [TcpFlow(key(other=other), 0, 50_000, 4000, 4000), flow(50_000)])
    assert [path.pair for live in sharer.live for path in live.paths] == [PAIR]
    assert sharer.doubts.sentences == ("it reports a connection to an address that is not another host (1 time)",)


def test_connection_to_itself_makes_no_sharer_and_no_doubt() -> None:
    own = {PHONE, "10.1.9.2"}
    within = [TcpFlow(key(port, other=other), 0, 50_000, 40, 40) for port, other in enumerate(sorted(own), 1)]
    sharer = after_report(after_report(None, PHONE, own, [], 100.0), PHONE, own, within, 100.25)
    assert not sharer.active and not sharer.live and not sharer.least and not sharer.doubts.total


def test_falling_byte_count_is_refused_and_becomes_the_base() -> None:
    sharer = sharer_after([flow(10**6)], [flow(10**5)])
    assert not sharer.active and sharer.doubts.sentences == ("it reports fewer bytes than before (1 time)",)
    assert not sharer_after([flow(10**5 + 100)], before=sharer, start=100.5).active
    assert sharer_after([flow(10**5 + 50_000)], before=sharer, start=100.5).active


def test_repeated_connections_and_those_beyond_the_limit_are_ignored() -> None:
    for flows, counted in (([flow(50_000), flow(60_000)], 1), ([flow(50_000, n) for n in range(4000)], MOST_SUBFLOWS)):
        sharer = sharer_after([], flows)
        assert sharer.live_connections == counted and sharer.doubts.total == 1


def test_sharer_memory_is_bounded() -> None:
    sharer = sharer_after([])
    for report in range(6):
        flows = [TcpFlow(key(other=f"10.{report}.{n >> 8}.{n & 255}"), 0, 9, 4000, 4000) for n in range(MOST_SUBFLOWS)]
        sharer = after_report(sharer, PHONE, {PHONE}, flows, 100 + (report + 1) * PERIOD_S)
    assert len(sharer.quiet_bytes) == MOST_QUIET
    assert len(sharer.least) == MOST_PAIRS and ("10.5.0.1") in {other for _, other in sharer.least}


def test_doubt_is_shown_for_a_minute_and_counted_for_good() -> None:
    sharer = sharer_after([replace(flow(1), srtt_us=0)])
    assert after_report(sharer, PHONE, {PHONE}, [], 100 + DOUBTED_S - 1).doubts.sentences
    later = after_report(sharer, PHONE, {PHONE}, [], 100 + DOUBTED_S).doubts
    assert not later.sentences and later.total == 1


FLOWS = st.builds(
    TcpFlow,
    st.tuples(st.sampled_from([PHONE, "10.1.0.3", ""]), st.integers(1, 4), st.just(SERVER), st.just(80)),
    st.integers(0, 2),
    st.integers(-1, 200_000) | st.just(10**18),
    st.none() | st.integers(-1, 10**6) | st.just(10**18),
    st.none() | st.integers(-1, 10**6) | st.just(10**18),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(st.tuples(st.lists(FLOWS, max_size=6), st.floats(0, 2)), max_size=12))
def test_random_reports_never_fail_and_keep_values_plausible(reports: list[tuple[list[TcpFlow], float]]) -> None:
    sharer, now, doubted = None, 100.0, 0
    for flows, pause_s in reports:
        now += pause_s
        sharer = after_report(sharer, PHONE, {PHONE}, flows, now)
        assert sharer.doubts.total >= doubted + sum(wrong(each) is not None for each in flows)
        doubted = sharer.doubts.total
        assert all(pair[0] == PHONE and 0 < one.both_us <= 10**6 for pair, one in sharer.least.items())
        assert all(path.pair == PAIR for live in sharer.live for path in live.paths)
        assert sharer.live_connections <= len({each.connection for each in flows})


# Sources of flows


def subflow(**other: int) -> Subflow:
    return replace(Subflow(PHONE, 5000, SERVER, 80, False, False, *[0] * 9), **other)


def test_terminal_agent_groups_subflows_by_connection() -> None:
    one = subflow(srtt_us=5000, min_rtt_us=4000, bytes_acked=9, in_flight_segments=3)
    told = [Connection(0, False, (one,)), Connection(7, False, (subflow(), subflow(bytes_acked=1)))]
    plain, first, second = of_connections(told)
    assert plain == TcpFlow(key(), 0, 9, 5000, 4000, waits=True) and plain.connection == key()
    assert first.connection == second.connection == 7
    assert first.srtt_us is None and first.min_rtt_us is None, "nothing was measured yet"
    assert wrong(first) is None and wrong(second) == "an impossible round trip"


def test_gateway_agent_reports_forwarded_flows() -> None:
    passing = Passing(PHONE, 5000, SERVER, 80, 9, 5000, 4000, 3, joined=True, has_scale=True)
    quiet = replace(passing, srtt_us=0, min_rtt_us=0, since_data_ms=900)
    assert of_passing([passing, quiet]) == (
        TcpFlow(key(), 0, 9, 5000, 4000, waits=True, joined=True),
        TcpFlow(key(), 0, 9, None, None, waits=False, joined=True),
    )
    assert wrong(of_passing([quiet])[0]) is None
    assert sharers.after_report(None, PHONE, {PHONE}, of_passing([quiet]), 1.0).doubts.total == 0
