"""The wall's clock and the calendar on it, for those who count by the day."""

from __future__ import annotations

import ctypes
import time

from controller.policy.budget import Moment

TIME_ERROR = 5  # adjtimex(2): not synchronized
TIMEX_BYTES = 208  # sizeof(struct timex) on 64 bits


def moment(at: float) -> Moment:
    """Of a time in Unix seconds, where this machine is."""
    here = time.localtime(at)
    midnight = time.mktime((here.tm_year, here.tm_mon, here.tm_mday + 1, 0, 0, 0, 0, 0, -1))
    tomorrow = _day(time.localtime(midnight)) if synchronised() else None
    return Moment(at, _day(here), midnight, here.tm_gmtoff, tomorrow)


def _day(local: time.struct_time) -> str:
    return time.strftime("%Y-%m-%d", local)


def synchronised() -> bool:
    """Return whether the kernel says that its clock is kept in step with another. Where it says nothing, it is not."""
    try:
        return adjtimex() != TIME_ERROR
    except OSError:
        return False


def adjtimex() -> int:
    """Return the clock's state; a struct of zeros changes nothing (modes = 0). Raise OSError."""
    answer: int = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    return answer
