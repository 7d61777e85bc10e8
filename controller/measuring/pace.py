"""How seldom roads are probed: a hundredth of what they carry at most, and of what may be spent on one in a day."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

PART = 0.01
SMALL_DIFFER = 0.97  # a tenth of a probe, or an eighth, is small packets of the other direction
SELDOM_S = 600.0  # from one probe to the next of the same road and direction, at least
ASSUMED_BPS = 1e6  # where nothing is known yet
DAY_S = 86_400.0
KEPT_PAID_S = 3 * DAY_S  # a figure of what is paid for by the byte: it may be probed every second day alone
FIRST_AFTER_S = 5.0  # of answers
PAUSE_MS = 100  # between packets of its health
PAUSE_WATCHED_MS = 20  # where somebody sends what nobody else tells of
PAUSE_SPARED_MS = 1000  # where it is paid for by the byte, or many share the air
AGAIN_AFTER_S = 30.0  # where a probe could not begin


@dataclass(frozen=True, slots=True)
class Sent:
    at: float  # when the probe began
    bytes: int


def period_s(sent_bytes: int, bps: float | None, back_bps: float | None) -> float:
    """The slower direction counts: long packets by the one's probes and small ones by the other's are in its part."""
    slower_bps = min(bps or ASSUMED_BPS, back_bps or math.inf)
    return max(SELDOM_S, 8 * sent_bytes / (SMALL_DIFFER * PART * slower_bps))


def paid_at(spent: Iterable[Sent], wanted_bytes: int, budget_bytes: int) -> float | None:
    """When so many bytes more are within their part of the day's budget, whenever a day is taken to begin: half of the
    part is the last probe's, and what was sent before it has been waited for. None: never."""
    half = PART / 2 * budget_bytes
    if wanted_bytes > half:
        return None
    last = max(spent, key=lambda one: one.at, default=None)
    return last.at + DAY_S * last.bytes / half if last is not None else 0.0
