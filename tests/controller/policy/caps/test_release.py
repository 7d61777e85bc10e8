# SPDX-License-Identifier: Apache-2.0
"""Where somebody sends whom nobody holds, who is held does not starve; where nobody does, caps are what they were."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from controller.model.config import CapRule
from controller.policy.caps.capacity import Use
from controller.policy.caps.release import (
    CALM_S,
    GIVEN_PART,
    LASTS_S,
    LONGEST_S,
    RESTS_S,
    SETTLES_S,
    STARVED_S,
    TRIED_S,
    Release,
    State,
)
from controller.policy.caps.windows import SEGMENT_US, Part, window
from controller.policy.caps.windows import released as released_window
from tests.controller.sharing_terminals import BANDWIDTH_BPS, IDEAL
from tests.controller.unheld_guests import Sender, SharedAir

BPS = 20e6
GUEST_COMES_S = 8.0
LASTS_FOR_S, COUNTED_S = 10.0, 10.0
TICK_S = 0.25


def later(seconds: float) -> bool:
    return seconds >= GUEST_COMES_S


def by_turns(seconds: float) -> bool:
    return later(seconds) and (seconds - GUEST_COMES_S) % 6 < 3


GUESTS = {
    "nobody": [],
    "an upload": [Sender(0.016, False, sends=later)],
    "a far upload": [Sender(0.256, False, sends=later)],
    "three uploads": [Sender(0.016, False, sends=later)] * 3,
    "UDP": [Sender(0.016, False, udp_bps=5e6, sends=later)],
    "much UDP": [Sender(0.016, False, udp_bps=15e6, sends=later)],
    "bursts": [Sender(0.016, False, sends=by_turns)],
}


def got(rtts_ms: list[int], guest: str, rule: CapRule) -> list[float]:
    """What each held terminal gets when the guest has been there for a while, in bits a second."""
    senders = [Sender(rtt_ms / 1000) for rtt_ms in rtts_ms]
    air = SharedAir([*senders, *map(replace, GUESTS[guest])], rule)
    air.run(GUEST_COMES_S + LASTS_FOR_S)
    return air.run(COUNTED_S)[: len(rtts_ms)]


def least_part(rtts_ms: list[int], guest: str) -> float:
    """Of its share with the rule off, for the terminal that gets least of it."""
    off, ideal = got(rtts_ms, guest, CapRule.OFF), got(rtts_ms, guest, CapRule.IDEAL)
    return min(each / min(share, mean(off)) for each, share in zip(ideal, off, strict=True))


@pytest.mark.parametrize("guest", [guest for guest, senders in GUESTS.items() if senders])
def test_no_held_terminal_gets_much_less_than_its_share_whoever_is_not_held(guest: str) -> None:
    assert least_part([4, 16, 128, 256], guest) >= 0.85, "what is lost, and by whom, is luck"


def test_when_the_guest_has_gone_so_has_the_queue() -> None:
    air = SharedAir([*[Sender(0.016) for _ in range(3)], Sender(0.016, False, sends=lambda seconds: 8 <= seconds < 20)])
    air.run(19)
    assert air.place.release.state is State.RELEASED and air.queued_s > 0.1
    air.run(30)
    assert air.queued_s < 0.02 and not air.place.release.is_on
    assert all(each > 0.9 * BPS / 3 for each in air.run(5)[:3])


# What is found out, by what terminals deliver


def use(bps: float, granted_bps: float, queue_ms: float, terminal: str = "t1") -> Use:
    return Use(terminal, bps, granted_bps, 10, 16_000 + round(1000 * queue_ms), 16_000)


HELD = [use(9.5e6, 10e6, 1, "t1"), use(9.5e6, 10e6, 1, "t2")]
STARVING = [use(1e6, 1e6, 150, "t1"), use(1e6, 1e6, 150, "t2")]
BETTER = [use(6e6, 6e6, 400, "t1"), use(6e6, 6e6, 400, "t2")]


def after(release: Release, uses: list[Use], seconds: float, now: float) -> tuple[Release, float]:
    for _ in range(round(seconds / TICK_S)):
        now += TICK_S
        release = release.after(uses, BPS, len(uses), 2000.0, now)
    return release, now


def tried() -> tuple[Release, float]:
    release, now = after(Release(), STARVING, SETTLES_S + STARVED_S + 2 * TICK_S, 100.0)
    assert release.state is State.TRIED
    return release, now


def released() -> tuple[Release, float]:
    release, now = tried()
    release, now = after(release, BETTER, TRIED_S + 2 * LONGEST_S + TICK_S, now)
    assert release.state is State.RELEASED
    return release, now


def test_who_starves_in_a_queue_that_caps_do_not_explain_is_told_with_figures() -> None:
    release, now = tried()
    assert release.because == (
        "a queue of 150 ms stood there, of which caps explain 2 ms, and t1 got 1 Mbit/s of its 6.7: somebody sends "
        "there whom nobody holds"
    )
    release, now = after(release, STARVING, 1, now)
    assert release.least_bps(now) == GIVEN_PART * BPS / 2


def test_a_queue_that_overflows_as_the_trial_ends_undoes_nothing() -> None:
    release, now = tried()
    release, now = after(release, BETTER, release.until - now - 1, now)
    release, now = after(release, STARVING, 1 + TICK_S, now)
    assert release.state is State.RELEASED


@pytest.mark.parametrize(
    "uses",
    [
        pytest.param(HELD, id="all get their part"),
        pytest.param([use(1e6, 1e6, 2)] * 2, id="no queue stands but their own"),
        pytest.param([use(1e6, 9e6, 150)] * 2, id="windows are not used up"),
        pytest.param([use(18e6, 18e6, 150, "t1"), use(1e6, 1e6, 150, "t2")], id="nobody else has the rest"),
    ],
)
def test_else_nothing_is_released(uses: list[Use]) -> None:
    release, _ = after(Release(), uses, 20, 100.0)
    assert release.state is State.HELD and release.because is None


def test_nothing_is_released_while_terminals_join() -> None:
    release, now = Release(), 100.0
    for number in range(1, 12):
        release, now = after(release, [use(0.5e6, 0.5e6, 150, f"t{each}") for each in range(number)], 1.5, now)
    assert release.state is State.HELD


def test_what_gains_nothing_is_undone_and_tried_again_ever_later() -> None:
    release, now = tried()
    waits_s = []
    for _ in range(4):
        began = now
        while release.state is State.TRIED:
            release, now = after(release, STARVING, TICK_S, now)
        assert now - began <= TRIED_S + 2 * LONGEST_S + TICK_S
        ended = now
        while release.state is State.HELD:
            release, now = after(release, STARVING, TICK_S, now)
        waits_s.append(now - ended)
    assert waits_s == pytest.approx([RESTS_S, 2 * RESTS_S, 4 * RESTS_S, 8 * RESTS_S], abs=2 * TICK_S)


def test_caps_are_back_when_no_such_queue_has_stood_for_a_while() -> None:
    release, now = released()
    release, now = after(release, HELD, CALM_S / 2, now)
    release, now = after(release, BETTER, TICK_S, now)
    release, now = after(release, HELD, CALM_S, now)
    assert release.state is State.RELEASED, "a pause is no end"
    release, now = after(release, HELD, 2 * TICK_S, now)
    assert release.state is State.HELD


def test_whether_it_is_needed_still_is_asked_after_a_while_and_then_ever_later() -> None:
    release, now = released()
    lasts_s = []
    for _ in range(3):
        began = now
        while release.state is State.RELEASED:
            release, now = after(release, BETTER, TICK_S, now)
        lasts_s.append(now - began)
        while release.state is State.HELD:
            release, now = after(release, STARVING, TICK_S, now)
        while release.state is State.TRIED:
            release, now = after(release, BETTER, TICK_S, now)
        assert release.state is State.RELEASED
    assert lasts_s == pytest.approx([LASTS_S, 2 * LASTS_S, 4 * LASTS_S], abs=2.0)


def test_no_more_is_given_than_comes_through() -> None:
    release, now = released()
    less = [use(1.5e6, 6e6, 400, "t1"), use(1.5e6, 6e6, 400, "t2")]
    release, now = after(release, less, 15, now)
    assert release.given_bps <= 2.5e6 < GIVEN_PART * BPS / 3
    release, now = after(release, BETTER, 20, now)
    assert release.given_bps == pytest.approx(GIVEN_PART * BPS / 3)


def test_where_nobody_can_hold_a_floor_a_window_lets_twice_a_part_through() -> None:
    rtt_us, srtt_us = 16_000, 116_000
    part = Part(IDEAL, 4, 1)
    one = window(part, rtt_us, srtt_us, None)
    lets = [
        released_window(part, one, srtt_us, 0.0, has_floor).most * SEGMENT_US / srtt_us for has_floor in (True, False)
    ]
    assert lets == pytest.approx([0.95 * BANDWIDTH_BPS / 4, 2 * BANDWIDTH_BPS / 4], abs=SEGMENT_US / srtt_us)
