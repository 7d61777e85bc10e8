"""Whether the clock is one by which something can be given out: a machine without a battery begins in 1970, and what is
written then is refused afterwards, or has run out.
"""

from __future__ import annotations

from controller import kept
from controller.agency.refusals import AgencyError

DAY_S = 86400.0
SOONEST_S = DAY_S  # a certificate counts from a day before
LATEST_S = kept.TIMES_END - 7301 * DAY_S  # and a CA for twenty years


def checked(now: float) -> float:
    """Unix seconds."""
    if not SOONEST_S <= now < LATEST_S:
        raise AgencyError(
            f"the clock of this machine says that it is {now:.0f} s after 1970 began, and nothing can be given out by "
            "it: set the clock (`timedatectl`) and try again"
        )
    return now
