# SPDX-License-Identifier: Apache-2.0
"""Report an uplink of which more than 1 % of the received packets cannot be identified."""

from __future__ import annotations

from dataclasses import replace

from controller.policy.paths.arrivals import MIN_PACKETS, WINDOW_S, UnidentifiedWindow, unidentified_after
from controller.protocol.reports import PathCopies

EMPTY = PathCopies("wifi", True, 0, 0, 0, 0, 0, 0, 0, ())


def after(*windows: tuple[int, int], every_s: float = WINDOW_S) -> str | None:
    """Return the warning after windows with these counts of known and unknown packets."""
    known: dict[str, UnidentifiedWindow] = unidentified_after({}, {"wifi": EMPTY}, 0.0)
    path = EMPTY
    for number, (first, unidentified) in enumerate(windows, 1):
        path = replace(path, first=path.first + first, unidentified=path.unidentified + unidentified)
        known = unidentified_after(known, {"wifi": path}, number * every_s)
    return known["wifi"].reason


def test_few_unknown_packets_give_no_warning() -> None:
    assert after((990, 10)) is None and after((980, 20)) is not None
    assert after((0, MIN_PACKETS - 1)) is None
    assert after((0, MIN_PACKETS // 2), (0, MIN_PACKETS // 2)) is not None, "they add up"
    assert after((0, 5000), every_s=WINDOW_S / 2) is None, "too short a time"


def test_warning_stays_until_a_window_is_clean() -> None:
    assert after((500, 500), (10, 0)) is not None, "a few packets prove nothing"
    assert after((500, 500), (1000, 0)) is None


def test_unforwarded_packets_and_a_counter_reset_give_no_warning() -> None:
    before = unidentified_after({}, {"wifi": replace(EMPTY, first=9000)}, 0.0)
    more = unidentified_after(before, {"wifi": replace(EMPTY, first=9000, not_forwarded=9000)}, WINDOW_S)
    assert more["wifi"].reason is None and more["wifi"].since == 0.0
    assert unidentified_after(before, {"wifi": EMPTY}, WINDOW_S)["wifi"] == UnidentifiedWindow(EMPTY, WINDOW_S)
