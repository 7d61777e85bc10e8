# SPDX-License-Identifier: Apache-2.0
"""An uplink by which nothing comes back is found out by its switch alone; a terminal that only sends proves nothing."""

from __future__ import annotations

from collections.abc import Iterable

from controller.policy.paths.arrivals import (
    Counts,
    Return,
    return_answered,
    return_asked,
    return_counted,
)

ALIVE = return_answered(Return())
CALL = 50  # packets a second


def seconds(uplink: Return, number: int, *, comes: int = 0, sends: int = CALL, answers: bool = False) -> Return:
    """Each with a question and a reading."""
    for second in range(number):
        uplink = return_asked(uplink)
        uplink = return_counted(uplink, Counts(1000 + comes * second, 1000 + sends * second, float(second)))
        if answers:
            uplink = return_answered(uplink)
    return uplink


def dead(uplinks: Iterable[Return]) -> list[bool]:
    return [uplink.dead is not None for uplink in uplinks]


def test_one_sign_alone_proves_nothing() -> None:
    only_sends = seconds(ALIVE, 60, answers=True)
    silent_router = seconds(ALIVE, 60, comes=1)
    idle = seconds(ALIVE, 60, sends=1)
    never_answered = seconds(Return(), 60)
    assert dead([only_sends, silent_router, idle, never_answered]) == [False] * 4


def test_it_lives_again_when_its_next_hop_answers_or_anything_comes() -> None:
    assert seconds(ALIVE, 2).dead is None
    uplink = seconds(ALIVE, 10)
    assert uplink.dead is not None
    assert return_answered(uplink).dead is None
    assert return_counted(uplink, Counts(5000, 5000, 11.0)).dead is None


def test_a_switch_that_counts_anew_is_watched_anew() -> None:
    uplink = return_asked(return_asked(return_asked(ALIVE)))
    uplink = return_counted(uplink, Counts(1000, 1000, 0.0))
    assert return_counted(uplink, Counts(1000, 10, 1.0)).dead is None
