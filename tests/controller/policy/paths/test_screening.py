# SPDX-License-Identifier: Apache-2.0
"""An uplink that delivers no copies gets none, is tried again, and rests longer after each failed trial."""

from __future__ import annotations

from controller.policy.paths.arrivals import (
    ENOUGH_ANSWERS,
    HOLD_AT_MOST_S,
    HOLD_S,
    TRIAL_S,
    Screen,
    screened,
    screening_answered,
)


def after(screen: Screen | None, silent: bool, *moments: float) -> Screen | None:
    for now in moments:
        screen = screened(screen, silent, now)
    return screen


def test_silent_uplink_rests_and_is_tried_again() -> None:
    resting = after(None, True, 10.0)
    assert resting == Screen(HOLD_S, 10.0 + HOLD_S)
    assert after(resting, False, 10.0 + HOLD_S / 2) == resting, "without copies it cannot deliver any"
    trial = after(resting, True, 10.0 + HOLD_S)
    assert trial is not None and trial.on_trial
    assert after(trial, False, 10.0 + HOLD_S + 0.1) is None


def test_rest_doubles_after_each_failed_trial_up_to_a_minute() -> None:
    now, screen, holds = 0.0, None, []
    for _ in range(6):
        screen = screened(screen, True, now)
        assert screen is not None and not screen.on_trial
        holds.append(screen.hold_s)
        now += screen.hold_s
        screen = screened(screen, True, now)
        assert screen is not None and screen.on_trial
        assert screened(screen, True, now + TRIAL_S / 2) == screen
        now += TRIAL_S
    assert holds == [HOLD_S, 2 * HOLD_S, 4 * HOLD_S, 8 * HOLD_S, HOLD_AT_MOST_S, HOLD_AT_MOST_S]


def test_trial_after_next_hop_answers_needs_more_each_time() -> None:
    screen, needed = screened(None, True, 0.0), []
    for _ in range(4):
        assert screen is not None
        answers = 0
        while not screen.on_trial:
            screen, answers = screening_answered(screen, 1.0), answers + 1
        needed.append(answers)
        screen = screened(screen, True, screen.until)
    assert needed == [ENOUGH_ANSWERS, 2 * ENOUGH_ANSWERS, 4 * ENOUGH_ANSWERS, 8 * ENOUGH_ANSWERS]


def test_long_dead_uplink_returns_after_few_answers() -> None:
    screen = screened(None, True, 0.0)
    for _ in range(20):
        assert screen is not None
        screen = screened(screen, True, screen.until)
    while screen is not None and screen.on_trial:
        screen = screened(screen, True, screen.until)
    assert screen is not None and screen.hold_s == HOLD_AT_MOST_S
    for _ in range(ENOUGH_ANSWERS):
        screen = screening_answered(screen, 1000.0)
    assert screen.on_trial and screened(screen, False, 1000.1) is None
