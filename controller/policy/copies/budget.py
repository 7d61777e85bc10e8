# SPDX-License-Identifier: Apache-2.0
"""The limits of copies on an uplink: bytes per day, and a share of the site's traffic.

    copies allowed    ──(the day's bytes will be used up)──────────► barred until the day ends
          ▲           ──(too great a share of the last minutes)─┐
          └──────────────(a minute later, and it is less)───────┴──► barred for a minute

The caller says which day it is. The bytes used in it outlive a restart, with the counters as last read: a switch copies
on while nobody reads it. A periodic reading learns of the last bytes too late, so copies end while twice the bytes of
a recent reading interval are left. This alone keeps no budget to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.model.known import CopyCounter, Spent
from controller.model.uplink import Limits

SHARE_S = 300.0  # "the last minutes"
STEP_S = 10.0  # resolution of the record
LOOKED_AGAIN_S = 60.0  # until the share is checked again
LESS = 0.8  # hysteresis: copies resume below this part of the greatest share
LITTLE_BYTES = 1_000_000  # with fewer in the last minutes, the share does not count


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of the wall clock."""

    at: float  # Unix seconds
    day: str  # local date: 2026-11-22
    day_ends_at: float
    utc_offset_s: int
    tomorrow: str | None = None  # None: the clock is not synchronized and may be years off


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A reading of the counters at one end's switch."""

    at: str  # identity of the counters: switch and table
    copied: CopyCounter
    carried: Mapping[int, int]  # bytes sent by uplink ports, by port number


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
    spent: Spent
    steps: tuple[BudgetStep, ...] = ()
    carried: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # counters as last read by this controller
    barred_until: float | None = None  # because of the share of copies

    @property
    def share(self) -> float:
        carried = sum(step.carried_bytes for step in self.steps)
        return sum(step.copied_bytes for step in self.steps) / carried if carried > LITTLE_BYTES else 0.0

    @property
    def most_bytes(self) -> int:
        return max((step.most_bytes for step in self.steps), default=0)


def opened(limits: Limits, stored: Spent | None, moment: Moment) -> Account:
    """Return a new account. `stored` is from before a restart or a change of the limits."""
    return Account(limits, _today(stored or Spent(moment.day), moment))


def counted(account: Account, now: CounterReading, moment: Moment) -> Account:
    """Return the account after a reading. The first reading of a switch only sets the base."""
    spent = _today(account.spent, moment)
    before, carried = spent.counted.get(now.at, now.copied), account.carried.get(now.at)
    anew = before.rate_kbps != now.copied.rate_kbps
    copied = _since(0 if anew else before.passed_bytes, now.copied.passed_bytes)
    spent = replace(spent, copied_bytes=spent.copied_bytes + copied, counted={**spent.counted, now.at: now.copied})
    account = replace(account, carried={**account.carried, now.at: now.carried})
    if carried is not None:  # without an earlier reading, the count covers an unknown time
        sent = sum(_since(carried[port], count) for port, count in now.carried.items() if port in carried)
        account = replace(account, steps=_stepped(account.steps, copied, sent, moment.at))
    budget = account.limits.budget_bytes_per_day
    if budget is not None and spent.copied_bytes + 2 * account.most_bytes >= budget:
        spent = replace(spent, used_up=budget)
    return _share_checked(replace(account, spent=spent), moment.at)


def corrected(account: Account, moment: Moment, copied_bytes: int) -> Account:
    """Return the account with this use today. Counters stay as last read, so that nothing is counted twice."""
    spent = Spent(moment.day, copied_bytes, counted=account.spent.counted)
    return Account(account.limits, spent, carried=account.carried)


def barred(account: Account, moment: Moment) -> str | None:
    """Return why copies on this uplink are barred, or None."""
    budget, spent = account.limits.budget_bytes_per_day, _today(account.spent, moment)
    if budget is not None and (spent.copied_bytes >= budget or (spent.used_up is not None and budget <= spent.used_up)):
        until = (
            _clock(moment.day_ends_at, moment)
            if spent.day == moment.day
            else (f"the clock is past {spent.day} (if that is wrong: `./bicast budget reset`)")
        )
        return f"used up until {until}: {_mb(spent.copied_bytes)} of {_mb(budget)} MB allowed for copies per day"
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


def _since(before: int, now: int) -> int:
    """Return the increase of a counter. A lower count means a restart from 0."""
    return now - before if now >= before else now


def _today(spent: Spent, moment: Moment) -> Spent:
    """Return the bytes spent on this day.

    Setting the clock back does not refill the budget, nor does a clock that begins in 1970 and is then set. A stored
    day beyond tomorrow, by a synchronized clock, was an error: its bytes count for today.
    """
    if moment.day > spent.day:
        return Spent(moment.day, counted=spent.counted)
    far_ahead = moment.tomorrow is not None and spent.day > moment.tomorrow
    return replace(spent, day=moment.day) if far_ahead else spent


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
