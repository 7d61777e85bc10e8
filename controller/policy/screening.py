"""An uplink that brings no copies gets none for a while: its air, or its metered plan, would be spent on nothing.

    silent ──► out ──(hold-down over, or its next hop answers)──► on trial ──► brings copies: as before
                ▲                                                    │
                └───────────── silent still: out for twice as long ──┘

Meanwhile the others protect less. So its next hop is asked for each second, and it is on trial when that has answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

HOLD_S = 5.0
HOLD_AT_MOST_S = 60.0
TRIAL_S = 3.0  # two reports, and what an order takes
ENOUGH_ANSWERS = 2  # one may have been under way since before
VAIN_AT_MOST = 5  # doublings of it


@dataclass(frozen=True, slots=True)
class Screen:
    hold_s: float
    until: float  # of the hold-down, or of the trial
    on_trial: bool = False
    answers: int = 0  # of its next hop, since it is out
    vain: int = 0  # trials to which its answers led, and which failed: it carries questions, and no copies

    @property
    def answers_enough(self) -> bool:
        return self.answers >= ENOUGH_ANSWERS << min(self.vain, VAIN_AT_MOST)


def screened(screen: Screen | None, silent: bool, now: float) -> Screen | None:
    """What follows of what was; None: it gets its copies."""
    if screen is None:
        return Screen(HOLD_S, now + HOLD_S) if silent else None
    if screen.on_trial and not silent:
        return None
    if now < screen.until:
        return screen
    if not screen.on_trial:
        return replace(screen, until=now + TRIAL_S, on_trial=True)
    hold_s = min(2 * screen.hold_s, HOLD_AT_MOST_S)
    return Screen(hold_s, now + hold_s, vain=screen.vain + screen.answers_enough)


def answered(screen: Screen, now: float) -> Screen:
    """Its next hop has answered a question that went by this uplink."""
    if screen.on_trial:
        return screen
    screen = replace(screen, answers=screen.answers + 1)
    return replace(screen, until=now + TRIAL_S, on_trial=True) if screen.answers_enough else screen
