"""The wall's clock and the calendar on it, for those who count by the day."""

from __future__ import annotations

import time

from controller.policy.budget import Moment


def moment(at: float) -> Moment:
    """Of a time in Unix seconds, where this machine is."""
    here = time.localtime(at)
    midnight = time.mktime((here.tm_year, here.tm_mon, here.tm_mday + 1, 0, 0, 0, 0, 0, -1))
    return Moment(at, time.strftime("%Y-%m-%d", here), midnight, here.tm_gmtoff)
