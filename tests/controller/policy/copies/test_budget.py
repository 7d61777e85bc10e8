# SPDX-License-Identifier: Apache-2.0
"""Budgets of metered uplinks use counters, survive a restart and name the time at which their period ends."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.edges.runtime.process import moment
from controller.model.observed import CopyCounter
from controller.model.uplink import Budget, Limits, Period
from controller.policy.copies.budget import (
    LITTLE_BYTES,
    LOOKED_AGAIN_S,
    SHARE_S,
    Account,
    CounterReading,
    Moment,
    barred,
    corrected,
    counted,
    nearly,
    opened,
    used,
)

MB = 1_000_000
NOON = 1_795_345_200.0  # one hour east of Greenwich
A_PART = Limits(budget=None, max_share=0.3)


def a_day(megabytes: int = 100) -> Limits:
    return Limits(Budget(megabytes * MB, Period.DAY), None)


A_DAY = a_day()
A_MONTH = Limits(Budget(2000 * MB, Period.MONTH), None)


def at(seconds: float, day: str = "2026-11-22") -> Moment:
    return Moment(NOON + seconds, day, NOON + 12 * 3600, 3600)


def reading(copied: int, carried: int, rate_kbps: int = 0, switch: str = "1", port: int = 4) -> CounterReading:
    """Return a reading of a switch whose uplink only sends."""
    return CounterReading(switch, CopyCounter(copied, rate_kbps), {port: carried}, carried)


def after_readings(account: Account, *readings: tuple[float, int, int]) -> Account:
    """Each reading has seconds after noon, and megabytes copied and carried since the start."""
    for seconds, copied, carried in readings:
        account = counted(account, reading(copied * MB, carried * MB), at(seconds))
    return account


def used_up() -> Account:
    return after_readings(opened(A_DAY, None, at(0)), (0, 0, 0), (1, 51, 101))


def test_budget_counts_all_that_the_uplink_carries_and_ends_copies_early() -> None:
    account = after_readings(opened(A_DAY, None, at(0)), *((second, 2 * second, 5 * second) for second in range(20)))
    assert account.used.bytes == 95 * MB
    assert barred(account, at(19)) is None, "two more readings copy 4 MB"
    account = after_readings(account, (20, 40, 97))
    assert barred(account, at(20)) == "used up until 00:00: 97.0 of 100.0 MB for this day"
    quiet = after_readings(account, *((second, 40, 97) for second in range(21, 2000, 10)))
    assert barred(quiet, at(2000)), "3 MB are too few, even after a long time without copies"


def test_a_budget_nearly_used_up_is_told_from_80_percent() -> None:
    account = after_readings(opened(A_DAY, None, at(0)), (0, 0, 0), (1, 0, 79))
    assert nearly(account, at(1)) is None
    account = after_readings(account, (2, 0, 80))
    assert nearly(account, at(2)) == "nearly used up until 00:00: 80.0 of 100.0 MB for this day"
    assert nearly(after_readings(account, (3, 0, 100)), at(3)) is None, "it is used up"


def test_bytes_carried_over_midnight_count_on_the_new_day() -> None:
    account = after_readings(opened(A_DAY, None, at(0)), (0, 0, 0), (1, 20, 90))
    account = counted(account, reading(21 * MB, 100 * MB), at(13 * 3600, "2026-11-23"))
    assert account.used.period == "2026-11-23" and account.used.bytes == 10 * MB


@pytest.mark.parametrize(("last", "ends"), [("2026-11-30", "2026-12-01"), ("2026-12-31", "2027-01-01")])
def test_a_month_ends_with_its_last_day(last: str, ends: str) -> None:
    account = opened(A_MONTH, None, at(0, f"{last[:7]}-01"))
    for total, day in ((0, f"{last[:7]}-01"), (1200, f"{last[:7]}-15"), (2001, last)):
        account = used(account, "1", total * MB, at(0, day))
    assert barred(account, at(0, last)) == f"used up until {ends}: 2001.0 of 2000.0 MB for this month"
    assert barred(account, at(0, ends)) is None
    account = used(account, "1", 2002 * MB, at(0, ends))
    assert account.used.bytes == MB


def test_changed_budget_counts_at_once() -> None:
    kept = used_up().used
    assert barred(opened(a_day(300), kept, at(2)), at(2)) is None
    assert barred(opened(a_day(50), kept, at(2)), at(2))
    assert barred(opened(Limits(None, None), kept, at(2)), at(2)) is None
    assert opened(A_MONTH, kept, at(2)).used.bytes == 101 * MB


def test_clock_unset_or_set_back_refills_no_budget() -> None:
    kept = used_up().used
    unset = Moment(5.0, "1970-01-01", 86_400.0, 0)
    yesterday = replace(at(-86_400, "2026-11-21"), tomorrow="2026-11-22")
    for wrong in (unset, at(-9 * 86_400, "2026-11-13"), yesterday):
        account = opened(A_DAY, kept, wrong)
        assert "until the clock is past 2026-11-22" in (barred(account, wrong) or "")
        account = counted(account, reading(51 * MB, 101 * MB), wrong)
        assert barred(account, wrong)
        assert barred(account, at(60)), "the clock is set now, and it is the same day"


def far_ahead(limits: Limits) -> Account:
    ahead = Moment(NOON + 9 * 365 * 86_400, "2035-11-16", NOON + 9 * 365 * 86_400 + 1, 3600)
    account = counted(opened(limits, None, ahead), reading(0, 0), ahead)
    return counted(account, reading(51 * MB, 2001 * MB), ahead)


def test_clock_once_ahead_does_not_bar_after_correction() -> None:
    right = replace(at(0), tomorrow="2026-11-23")
    account = counted(far_ahead(A_DAY), reading(51 * MB, 2001 * MB), right)
    assert account.used.period == "2026-11-22"
    assert "used up until 00:00" in (barred(account, right) or ""), "the used bytes stay used"
    tomorrow = replace(at(13 * 3600, "2026-11-23"), tomorrow="2026-11-24")
    assert barred(account, tomorrow) is None
    assert barred(opened(A_DAY, replace(account.used, period="2035-11-16"), tomorrow), tomorrow), "after a restart, too"
    account = counted(far_ahead(A_MONTH), reading(51 * MB, 2001 * MB), right)
    assert "used up until 2026-12-01" in (barred(account, right) or "")


def test_reset_ends_the_bar_of_a_wrong_date_without_ntp() -> None:
    account = far_ahead(A_DAY)
    assert "until the clock is past 2035-11-16" in (barred(account, at(0)) or "")
    account = corrected(account, at(0), 0)
    assert barred(account, at(0)) is None
    account = counted(account, reading(60 * MB, 2050 * MB), at(1))
    assert account.used.period == "2026-11-22"
    assert account.used.bytes == 49 * MB, "only what was carried since then"
    assert corrected(account, at(2), 70 * MB).used.bytes == 70 * MB


def test_reset_ends_the_bar_of_a_share() -> None:
    account = after_readings(opened(A_PART, None, at(0)), (0, 0, 0), (10, 4, 10))
    assert barred(account, at(10))
    assert barred(corrected(account, at(10), 0), at(10)) is None


def test_copies_above_their_share_pause_a_minute_with_figures() -> None:
    account = after_readings(opened(A_PART, None, at(0)), (0, 0, 0), (10, 4, 10))
    reason = "used up until 12:01: copies were 40% of the traffic sent in 5 minutes; the limit is 30%"
    assert barred(account, at(10)) == reason
    assert barred(account, at(10 + LOOKED_AGAIN_S)) is None
    assert barred(after_readings(account, (20, 4, 100)), at(20)), "the share is not checked again at once"
    assert barred(after_readings(account, (71, 4, 14)), at(71)), "29 of 30 %"
    assert barred(after_readings(account, (71, 4, 18)), at(71)) is None, "22 %"


def test_share_is_ignored_for_few_bytes() -> None:
    account = counted(opened(A_PART, None, at(0)), reading(0, 0), at(0))
    account = counted(account, reading(LITTLE_BYTES, LITTLE_BYTES), at(1))
    assert barred(account, at(1)) is None


def test_share_ignores_bytes_carried_long_ago() -> None:
    account = after_readings(opened(A_PART, None, at(0)), (0, 0, 0), (1, 0, 1000), (2 + SHARE_S, 4, 1010))
    assert barred(account, at(2 + SHARE_S))


def test_bytes_count_once_after_switch_and_controller_restart() -> None:
    account = after_readings(opened(A_DAY, None, at(0)), (0, 0, 0), (1, 20, 20), (2, 1, 1), (3, 15, 15))
    assert account.used.bytes == 35 * MB
    assert after_readings(opened(A_DAY, account.used, at(9)), (9, 16, 16)).used.bytes == 36 * MB


def test_a_port_that_returns_is_no_traffic_in_the_share() -> None:
    account = after_readings(opened(A_PART, None, at(0)), (0, 900, 9000), (1, 901, 9002))
    account = counted(account, reading(902 * MB, 0, port=7), at(2))
    assert sum(step.copied_bytes for step in account.steps) == 2 * MB
    assert sum(step.carried_bytes for step in account.steps) == 2 * MB


def test_changed_meter_counts_from_zero() -> None:
    account = opened(A_PART, None, at(0))
    for second, (passed, rate) in enumerate([(0, 8), (30, 8), (35, 4), (5, 2)]):
        account = counted(account, reading(passed * MB, 0, rate), at(second))
    assert sum(step.copied_bytes for step in account.steps) == 70 * MB


def test_the_counter_that_saw_most_holds() -> None:
    """Both ends and the interface below count one link; the interface also sees what is no traffic of the bridge."""
    account = opened(A_DAY, None, at(0))
    for second, (total, counter) in enumerate(
        [(500, "home"), (700, "far"), (510, "home"), (709, "far"), (1000, "wwan0")]
    ):
        account = used(account, counter, total * MB, at(second))
    assert account.used.bytes == 10 * MB
    account = used(account, "wwan0", 1030 * MB, at(9))
    assert account.used.bytes == 40 * MB, "it goes on from what the others saw before it was there"
    account = used(account, "home", 520 * MB, at(10))
    assert account.used.bytes == 40 * MB
    again = opened(A_DAY, account.used, at(60))
    assert used(again, "wwan0", 1042 * MB, at(60)).used.bytes == 52 * MB, "what it saw while nobody asked"
    assert used(again, "wwan0", 3 * MB, at(60)).used.bytes == 43 * MB, "a modem that was plugged in again"


READINGS = st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(-(10**6), 10**6), st.integers(20, 25))


@given(st.lists(READINGS, max_size=40), st.integers(0, 10**9), st.floats(0, 1), st.sampled_from(list(Period)))
def test_budget_gives_no_bytes_back_within_its_period(
    readings: list[tuple[int, int, float, int]], budget: int, share: float, period: Period
) -> None:
    account = opened(Limits(Budget(budget, period), share), None, at(0))
    for copied, carried, seconds, day in readings:
        before, moment = account.used, at(seconds, f"2026-11-{day}")
        account = counted(account, reading(copied, carried), moment)
        assert account.used.period >= before.period
        if account.used.period == before.period:
            assert account.used.bytes >= before.bytes
            assert before.used_up is None or barred(account, moment)
        if account.used.bytes >= budget:
            assert barred(account, moment)


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=300))
def test_budget_is_exceeded_by_one_reading_at_most(each: list[int]) -> None:
    limits = Limits(Budget(500_000, Period.DAY), None)
    account = counted(opened(limits, None, at(0)), reading(0, 0), at(0))
    total = 0
    for second, copied in enumerate(each, start=1):
        if barred(account, at(second - 1)) is None:
            total += copied
        account = counted(account, reading(total, total), at(second))
    assert total <= 500_000 + max(each)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Auckland"])
def test_day_ends_at_midnight_of_the_local_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for at_s in (NOON, 1_774_742_400.0, 1_792_886_400.0):  # in Berlin, the last two days have 23 and 25 hours
            found = moment(at_s)
            assert at_s < found.day_ends_at <= at_s + 25 * 3600
            before, after = moment(found.day_ends_at - 1), moment(found.day_ends_at)
            assert before.day == found.day < after.day and (found.day_ends_at + after.utc_offset_s) % 86400 == 0
    finally:
        monkeypatch.undo()
        time.tzset()
