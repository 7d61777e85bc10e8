# SPDX-License-Identifier: Apache-2.0
"""Budgets of copies on a metered uplink use counters, survive a restart and name the time at which they refill."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.edges.runtime.process import moment
from controller.model.known import CopyCounter, Spent
from controller.model.uplink import Limits
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
    opened,
)

MB = 1_000_000
NOON = 1_795_345_200.0  # one hour east of Greenwich
A_DAY = Limits(budget_bytes_per_day=100 * MB, max_share=None)
A_PART = Limits(budget_bytes_per_day=None, max_share=0.3)


def at(seconds: float, day: str = "2026-11-22") -> Moment:
    return Moment(NOON + seconds, day, NOON + 12 * 3600, 3600)


def reading(copied: int, carried: int, rate_kbps: int = 0, switch: str = "1", port: int = 4) -> CounterReading:
    return CounterReading(switch, CopyCounter(copied, rate_kbps), {port: carried})


def after_readings(account: Account, *readings: tuple[float, int, int]) -> Account:
    """Each reading has seconds after noon, and megabytes copied and carried since the start."""
    for seconds, copied, carried in readings:
        account = counted(account, reading(copied * MB, carried * MB), at(seconds))
    return account


def test_budget_ends_copies_early_and_keeps_them_ended() -> None:
    account = after_readings(opened(A_DAY, None, at(0)), *((second, 5 * second, 9 * second) for second in range(19)))
    assert account.spent.copied_bytes == 90 * MB, "two more readings would use all of it"
    assert barred(account, at(18))
    quiet = after_readings(account, *((second, 90, 200) for second in range(19, 2000, 10)))
    assert barred(quiet, at(2000)), "10 MB are too few, even after a long time without copies"


def test_bytes_copied_between_reads_are_no_rate() -> None:
    kept = Spent("2026-11-22", 0, None, {"1": CopyCounter(0, 0)})
    assert barred(after_readings(opened(A_DAY, kept, at(0)), (0, 60, 90), (1, 61, 91)), at(1)) is None


def test_bytes_copied_over_midnight_count_on_the_new_day() -> None:
    account = after_readings(opened(A_DAY, None, at(0)), (0, 0, 0), (1, 50, 90))
    account = counted(account, reading(60 * MB, 100 * MB), at(13 * 3600, "2026-11-23"))
    assert account.spent.day == "2026-11-23" and account.spent.copied_bytes == 10 * MB


def test_changed_budget_counts_at_once() -> None:
    spent = after_readings(opened(A_DAY, None, at(0)), (0, 0, 0), (1, 101, 400)).spent
    assert barred(opened(Limits(300 * MB, None), spent, at(2)), at(2)) is None
    assert barred(opened(Limits(50 * MB, None), spent, at(2)), at(2))
    assert barred(opened(Limits(None, None), spent, at(2)), at(2)) is None


def test_clock_unset_or_set_back_refills_no_budget() -> None:
    spent = after_readings(opened(A_DAY, None, at(0)), (0, 0, 0), (1, 101, 400)).spent
    unset = Moment(5.0, "1970-01-01", 86_400.0, 0)
    yesterday = replace(at(-86_400, "2026-11-21"), tomorrow="2026-11-22")
    for wrong in (unset, at(-9 * 86_400, "2026-11-13"), yesterday):
        account = opened(A_DAY, spent, wrong)
        assert "until the clock is past 2026-11-22" in (barred(account, wrong) or "")
        account = counted(account, reading(101 * MB, 400 * MB), wrong)
        assert barred(account, wrong)
        assert barred(account, at(60)), "the clock is set now, and it is the same day"


def test_clock_once_ahead_does_not_bar_after_correction() -> None:
    ahead = Moment(NOON + 9 * 365 * 86_400, "2035-11-16", NOON + 9 * 365 * 86_400 + 1, 3600)
    account = counted(opened(A_DAY, None, ahead), reading(0, 0), ahead)
    account = counted(account, reading(101 * MB, 400 * MB), ahead)
    right = replace(at(0), tomorrow="2026-11-23")
    account = counted(account, reading(101 * MB, 400 * MB), right)
    assert account.spent.day == "2026-11-22"
    assert "used up until 00:00" in (barred(account, right) or ""), "the used bytes stay used"
    tomorrow = replace(at(13 * 3600, "2026-11-23"), tomorrow="2026-11-24")
    assert barred(account, tomorrow) is None
    assert barred(opened(A_DAY, replace(account.spent, day="2035-11-16"), tomorrow), tomorrow), "after a restart, too"


def test_reset_ends_the_bar_of_a_wrong_date_without_ntp() -> None:
    ahead = Moment(NOON + 9 * 365 * 86_400, "2035-11-16", NOON + 9 * 365 * 86_400 + 1, 3600)
    account = counted(opened(A_DAY, None, ahead), reading(0, 0), ahead)
    account = counted(account, reading(101 * MB, 400 * MB), ahead)
    assert "until the clock is past 2035-11-16" in (barred(account, at(0)) or "")
    account = corrected(account, at(0), 0)
    assert barred(account, at(0)) is None
    account = counted(account, reading(150 * MB, 500 * MB), at(1))
    assert account.spent.day == "2026-11-22"
    assert account.spent.copied_bytes == 49 * MB, "only what was copied since then"


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
    assert account.spent.copied_bytes == 35 * MB
    assert after_readings(opened(A_DAY, account.spent, at(9)), (9, 16, 16)).spent.copied_bytes == 36 * MB


def test_bytes_count_once_after_a_port_returns() -> None:
    account = after_readings(opened(A_PART, None, at(0)), (0, 900, 9000), (1, 901, 9002))
    account = counted(account, reading(902 * MB, 0, port=7), at(2))
    assert account.spent.copied_bytes == 2 * MB
    account = counted(opened(A_DAY, account.spent, at(9)), reading(902 * MB, 0, port=7), at(9))
    assert account.spent.copied_bytes == 2 * MB


def test_changed_meter_counts_from_zero() -> None:
    account = opened(A_DAY, None, at(0))
    for second, (passed, rate) in enumerate([(0, 8), (30, 8), (35, 4), (5, 2)]):
        account = counted(account, reading(passed * MB, 0, rate), at(second))
    assert account.spent.copied_bytes == 70 * MB
    again = counted(opened(A_DAY, account.spent, at(9)), reading(6 * MB, 0, 2), at(9))
    assert again.spent.copied_bytes == 71 * MB


def test_each_end_counts_from_its_own_last_reading() -> None:
    account = opened(A_DAY, None, at(0))
    for second, (copied, switch) in enumerate([(500, "1"), (700, "2"), (501, "1"), (702, "2")]):
        account = counted(account, reading(copied * MB, 0, switch=switch), at(second))
    assert account.spent.copied_bytes == 3 * MB
    again = counted(opened(A_DAY, account.spent, at(60)), reading(502 * MB, 0), at(60))
    assert again.spent.copied_bytes == 4 * MB, "the other end is not connected yet"
    again = counted(again, reading(710 * MB, 0, switch="2"), at(90))
    assert again.spent.copied_bytes == 12 * MB


READINGS = st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(-(10**6), 10**6), st.integers(20, 25))


@given(st.lists(READINGS, max_size=40), st.integers(0, 10**9), st.floats(0, 1))
def test_budget_gives_no_bytes_back_within_a_day(
    readings: list[tuple[int, int, float, int]], budget: int, share: float
) -> None:
    account = opened(Limits(budget, share), None, at(0))
    for copied, carried, seconds, day in readings:
        before, moment = account.spent, at(seconds, f"2026-11-{day}")
        account = counted(account, reading(copied, carried), moment)
        assert account.spent.day >= before.day
        if account.spent.day == before.day:
            assert account.spent.copied_bytes >= before.copied_bytes
            assert before.used_up is None or barred(account, moment)
        if account.spent.copied_bytes >= budget:
            assert barred(account, moment)


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=300))
def test_budget_is_exceeded_by_one_reading_at_most(each: list[int]) -> None:
    limits = Limits(500_000, None)
    account = counted(opened(limits, None, at(0)), reading(0, 0), at(0))
    used = 0
    for second, copied in enumerate(each, start=1):
        if barred(account, at(second - 1)) is None:
            used += copied
        account = counted(account, reading(used, used), at(second))
    assert used <= 500_000 + max(each)


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
