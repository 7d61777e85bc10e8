# SPDX-License-Identifier: Apache-2.0
"""The limits of copies on an uplink: what the uplink may carry in a period, and copies' share of the site's traffic.

    copies allowed    ──(the uplink has carried its budget)─────────► barred until the period ends
          ▲           ──(too great a share of the last minutes)─┐
          └──────────────(a minute later, and it is less)───────┴──► barred for a minute

A budget counts all bytes of the uplink, both ways, as its provider does; only copies end. The caller says which day it
is. What was used outlives a restart, with the counters as last read: the uplink carries on while nobody reads them. A
periodic reading learns of the last bytes too late, so copies end while twice their bytes of a recent reading interval
are left. This alone keeps no budget to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.model.decisions import Used
from controller.model.observed import CopyCounter
from controller.model.uplink import Budget, Limits, Period

SHARE_S = 300.0  # "the last minutes"
STEP_S = 10.0  # resolution of the record
LOOKED_AGAIN_S = 60.0  # until the share is checked again
LESS = 0.8  # hysteresis: copies resume below this part of the greatest share
LITTLE_BYTES = 1_000_000  # with fewer in the last minutes, the share does not count
REQUEST = "request"  # the counter of a correction
NEARLY = 0.8  # part of a budget from which people are warned


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of the wall clock."""

    at: float  # Unix seconds
    day: str  # local date: 2026-11-22
    day_ends_at: float
    utc_offset_s: int
    tomorrow: str | None = None  # None: the clock is not synchronized and may be years off

    def period(self, period: Period) -> str:
        return _period(self.day, period)

    def ends(self, period: Period) -> str:
        """Return when the period ends: the time of day, or the first day of the next month."""
        if period is Period.DAY:
            return _clock(self.day_ends_at, self)
        year, month = map(int, self.day.split("-")[:2])
        return f"{year + month // 12}-{month % 12 + 1:02}-01"


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A reading of the counters at one end's switch."""

    at: str  # identity of the switch
    copied: CopyCounter | None  # None: not counted yet
    carried: Mapping[int, int]  # bytes sent by uplink ports, by port number
    both_ways: int | None = None  # bytes that this uplink's port has sent and received


@dataclass(frozen=True, slots=True)
class BudgetStep:
    """The bytes of one STEP_S within the last minutes."""

    begun_at: float
    copied_bytes: int = 0
    carried_bytes: int = 0
    most_bytes: int = 0  # largest number copied between two readings

    def plus(self, copied: int, carried: int) -> BudgetStep:
        return BudgetStep(
            self.begun_at, self.copied_bytes + copied, self.carried_bytes + carried, max(self.most_bytes, copied)
        )


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one uplink."""

    limits: Limits
    used: Used
    steps: tuple[BudgetStep, ...] = ()
    carried: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # counters as last read by this controller
    copied: Mapping[str, CopyCounter] = field(default_factory=dict)  # the same
    barred_until: float | None = None  # because of the share of copies

    @property
    def share(self) -> float:
        carried = sum(step.carried_bytes for step in self.steps)
        return sum(step.copied_bytes for step in self.steps) / carried if carried > LITTLE_BYTES else 0.0

    @property
    def most_bytes(self) -> int:
        return max((step.most_bytes for step in self.steps), default=0)


def opened(limits: Limits, stored: Used | None, moment: Moment) -> Account:
    """Return a new account. `stored` is from before a restart or a change of the limits."""
    return Account(limits, _current(stored or Used(""), limits, moment))


def counted(account: Account, now: CounterReading, moment: Moment) -> Account:
    """Return the account after a reading of a switch. The first one of each counter only sets its base."""
    copied = 0
    if now.copied is not None:
        before = account.copied.get(now.at, now.copied)
        anew = before.rate_kbps != now.copied.rate_kbps
        copied = _since(0 if anew else before.passed_bytes, now.copied.passed_bytes)
        account = replace(account, copied={**account.copied, now.at: now.copied})
    carried = account.carried.get(now.at)
    account = replace(account, carried={**account.carried, now.at: now.carried})
    if carried is not None:  # without an earlier reading, the count covers an unknown time
        sent = sum(_since(carried[port], count) for port, count in now.carried.items() if port in carried)
        account = replace(account, steps=_stepped(account.steps, copied, sent, moment.at))
    if now.both_ways is not None:
        account = used(account, now.at, now.both_ways, moment)
    return _share_checked(account, moment.at)


def used(account: Account, counter: str, total: int, moment: Moment) -> Account:
    """Return the account after a reading of what the uplink has carried. A new counter begins with what others saw."""
    before = _current(account.used, account.limits, moment)
    count = before.by_counter.get(counter, before.bytes) + _since(before.read.get(counter, total), total)
    after = replace(before, by_counter={**before.by_counter, counter: count}, read={**before.read, counter: total})
    budget = account.limits.budget
    if budget is not None and after.bytes + 2 * account.most_bytes >= budget.bytes:
        after = replace(after, used_up=budget.bytes)
    return replace(account, used=after)


def corrected(account: Account, moment: Moment, used_bytes: int) -> Account:
    """Return the account with this use. Counters stay as last read, so that nothing is counted twice."""
    read = account.used.read
    current = _current(Used(""), account.limits, moment)
    corrected = replace(current, by_counter=dict.fromkeys((*read, REQUEST), used_bytes), read=read)
    return Account(account.limits, corrected, carried=account.carried, copied=account.copied)


def barred(account: Account, moment: Moment) -> str | None:
    """Return why copies on this uplink are barred, or None."""
    budget, now = account.limits.budget, _current(account.used, account.limits, moment)
    if budget is not None and (now.bytes >= budget.bytes or (now.used_up is not None and budget.bytes <= now.used_up)):
        until = (
            moment.ends(budget.period)
            if now.period == moment.period(budget.period)
            else f"the clock is past {now.period} (if that is wrong: `./bicast budget reset`)"
        )
        return f"used up until {until}: {_of_budget(now.bytes, budget)}"
    until_s = account.barred_until
    if (
        until_s is not None
        and account.limits.max_share is not None
        and moment.at < until_s <= moment.at + LOOKED_AGAIN_S
    ):
        of_what = f"of the traffic sent in {SHARE_S / 60:.0f} minutes"
        share = f"copies were {account.share:.0%} {of_what}; the limit is {account.limits.max_share:.0%}"
        return f"used up until {_clock(until_s, moment)}: {share}"
    return None


def nearly(account: Account, moment: Moment) -> str | None:
    """Return the warning that a budget is nearly used up, or None."""
    budget, now = account.limits.budget, _current(account.used, account.limits, moment)
    if budget is None or now.bytes < NEARLY * budget.bytes or barred(account, moment):
        return None
    return f"nearly used up until {moment.ends(budget.period)}: {_of_budget(now.bytes, budget)}"


def _of_budget(count: int, budget: Budget) -> str:
    return f"{_mb(count)} of {_mb(budget.bytes)} MB for this {budget.period}"


def _since(before: int, now: int) -> int:
    """Return the increase of a counter. A lower count means a restart from 0."""
    return now - before if now >= before else now


def _current(used: Used, limits: Limits, moment: Moment) -> Used:
    """Return what was used in this period.

    Setting the clock back does not refill the budget, nor does a clock that begins in 1970 and is then set. A stored
    period beyond tomorrow's, by a synchronized clock, was an error: its bytes count for this one. So do the bytes of a
    period of another length.
    """
    period = limits.budget.period if limits.budget else Period.DAY
    now = moment.period(period)
    if len(used.period) == len(now) and now > used.period:
        return Used(now, read=used.read)
    wrong = moment.tomorrow is not None and used.period > _period(moment.tomorrow, period)
    return replace(used, period=now) if wrong or len(used.period) != len(now) else used


def _period(day: str, period: Period) -> str:
    return day if period is Period.DAY else day[: len("2026-11")]


def _stepped(steps: tuple[BudgetStep, ...], copied: int, carried: int, at: float) -> tuple[BudgetStep, ...]:
    kept = tuple(step for step in steps if 0 <= at - step.begun_at < SHARE_S)
    if not kept or at - kept[-1].begun_at >= STEP_S:
        kept = (*kept, BudgetStep(at))
    return (*kept[:-1], kept[-1].plus(copied, carried))


def _share_checked(account: Account, at: float) -> Account:
    """Return the account after a check of the share. While copies are barred there is no check, to avoid flapping."""
    until, most = account.barred_until, account.limits.max_share
    if until is not None and at < until <= at + LOOKED_AGAIN_S:
        return account
    too_much = most is not None and account.share > (most if until is None else LESS * most)
    return replace(account, barred_until=at + LOOKED_AGAIN_S if too_much else None)


def _clock(at: float, moment: Moment) -> str:
    minutes = int(at + moment.utc_offset_s) // 60
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f}"
