"""What copies may use of an uplink that is paid for by the byte, as it is written at the uplink."""

from __future__ import annotations

import re

from controller.configuration.document import Mapped, Place
from controller.model import UNLIMITED, Limits

OF_BUDGETS = ("budget_bytes_per_day", "max_share")  # keys of an uplink
LEAST_BYTES = 1_000_000  # who writes fewer means megabytes
MOST_BYTES = 10**15
A_BUDGET = "a whole number of bytes a day, from 1000000 (1 MB) to 10^15, such as 100000000 for 100 MB"
SHARE = re.compile(r"0\.[0-9]{1,6}|1(\.0{1,6})?")


def limits_of(keys: Mapped) -> Limits:
    return Limits(
        keys.maybe("budget_bytes_per_day", lambda at: at.integer(LEAST_BYTES, MOST_BYTES, A_BUDGET), None),
        keys.maybe("max_share", _share, None),
    )


def _share(place: Place) -> float:
    expected = "a part of all that is sent, above 0 and up to 1, six digits behind the point at most, such as 0.25"
    text = place.text(expected)
    if not SHARE.fullmatch(text) or not float(text):
        raise place.wrong(expected)
    return float(text)


def unlimited_at(place: Place, limits: Limits, other: str) -> None:
    """A site that mirrors another one has the other ends of that one's uplinks: whose bytes are counted once."""
    if limits != UNLIMITED:
        written = OF_BUDGETS[0] if limits.budget_bytes_per_day is not None else OF_BUDGETS[1]
        value = limits.budget_bytes_per_day if limits.budget_bytes_per_day is not None else limits.max_share
        found = Place(place.file, f"{place.where}.{written}", value)
        raise found.wrong(f"nothing: it is written at {other}, and counts what both ends send")
