"""An uplink that brings no copies gets none for a while: its air, or its metered plan, would be spent on nothing.

silent ──► out ──(hold-down over)──► on trial ──► brings copies: as before
            ▲                            │
            └──── silent still: out for twice as long
"""

from __future__ import annotations

from dataclasses import dataclass

HOLD_S = 5.0
HOLD_AT_MOST_S = 60.0
TRIAL_S = 3.0  # two reports, and what an order takes


@dataclass(frozen=True, slots=True)
class Screen:
    hold_s: float
    until: float  # of the hold-down, or of the trial
    on_trial: bool = False


def screened(screen: Screen | None, silent: bool, now: float) -> Screen | None:
    """What follows of what was; None: it gets its copies."""
    if screen is None:
        return Screen(HOLD_S, now + HOLD_S) if silent else None
    if screen.on_trial and not silent:
        return None
    if now < screen.until:
        return screen
    if not screen.on_trial:
        return Screen(screen.hold_s, now + TRIAL_S, on_trial=True)
    hold_s = min(2 * screen.hold_s, HOLD_AT_MOST_S)
    return Screen(hold_s, now + hold_s)
