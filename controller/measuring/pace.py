"""How seldom roads are probed: a hundredth of what they carry at most, and of what may be spent on one in a day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PART = 0.01
SELDOM_S = 600.0  # from one probe to the next of the same road and direction, at least
ASSUMED_BPS = 1e6  # where nothing is known yet
DAY_S = 86_400.0
FIRST_AFTER_S = 5.0  # of answers
PAUSE_MS = 100  # between packets of its health
PAUSE_METERED_MS = 1000  # where it is paid for by the byte
AGAIN_AFTER_S = 30.0  # where a probe could not begin


@dataclass(frozen=True, slots=True)
class Spent:
    at: float  # when the probe began
    bytes: int


def period_s(sent_bytes: int, bps: float | None) -> float:
    return max(SELDOM_S, 8 * sent_bytes / (PART * (bps or ASSUMED_BPS)))


def paid_at(spent: Iterable[Spent], wanted_bytes: int, budget_bytes: int, now: float) -> float | None:
    """When so many bytes more are no more than their part of a day's budget; None: never, whatever was spent."""
    room = PART * budget_bytes - wanted_bytes
    if room < 0:
        return None
    at = now
    within = sorted((one for one in spent if now - one.at < DAY_S), key=lambda one: one.at)
    left = sum(one.bytes for one in within)
    for one in within:
        if left <= room:
            break
        left -= one.bytes
        at = one.at + DAY_S
    return at
