# SPDX-License-Identifier: Apache-2.0
"""Capped terminals do not starve beside uncapped senders. If every sender has a cap, the queue stays short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import mean

import pytest

from controller.model.config import CapRule
from controller.policy.caps.capacity import Use
from controller.policy.caps.release import KEPT_S, QUEUED_S, REST_S, RETRY_S, TRIAL_S, Release
from controller.policy.caps.windows import SEGMENT_US, AirtimeShare, window
from controller.policy.caps.windows import released as released_window
from tests.controller.sharing_terminals import BANDWIDTH_BPS, IDEAL
from tests.controller.unheld_guests import GuestAccessPoint, GuestSender

BPS = 20e6
GUEST_COMES_S = 8.0
LASTS_FOR_S, COUNTED_S = 10.0, 10.0
TICK_S = 0.25


def later(seconds: float) -> bool:
    return seconds >= GUEST_COMES_S


def by_turns(seconds: float) -> bool:
    return later(seconds) and (seconds - GUEST_COMES_S) % 6 < 3


def bursts(on_s: float, off_s: float) -> Callable[[float], bool]:
    return lambda seconds: seconds % (on_s + off_s) < on_s


GUESTS = {
    "an upload": [GuestSender(0.016, False, sends=later)],
    "a far upload": [GuestSender(0.256, False, sends=later)],
    "three uploads": [GuestSender(0.016, False, sends=later)] * 3,
    "UDP": [GuestSender(0.016, False, udp_bps=5e6, sends=later)],
    "much UDP": [GuestSender(0.016, False, udp_bps=15e6, sends=later)],
    "bursts": [GuestSender(0.016, False, sends=by_turns)],
}


def rates_of(capped: list[GuestSender], guest: str, rule: CapRule, written_bps: int | None) -> list[float]:
    """Return the rates of the capped terminals in bit/s, some time after the guest has begun."""
    air = GuestAccessPoint([*map(replace, capped), *map(replace, GUESTS[guest])], rule, written_bps)
    air.run(GUEST_COMES_S + LASTS_FOR_S)
    return air.run(COUNTED_S)[: len(capped)]


def least_share(capped: list[GuestSender], guest: str, written_bps: int | None = 20_000_000) -> float:
    """Return the smallest share, relative to the rates without caps."""
    off, ideal = (rates_of(capped, guest, rule, written_bps) for rule in (CapRule.OFF, CapRule.IDEAL))
    return min(each / min(share, mean(off)) for each, share in zip(ideal, off, strict=True))


ALL_THE_TIME = [GuestSender(rtt_s) for rtt_s in (0.004, 0.016, 0.128, 0.256)]


@pytest.mark.parametrize("guest", GUESTS)
def test_capped_terminals_keep_their_share_beside_uncapped(guest: str) -> None:
    assert least_share(ALL_THE_TIME, guest) >= 0.85, "losses are random"


def test_release_begins_despite_bursts_of_a_capped_terminal_or_measured_air() -> None:
    capped = [GuestSender(0.016), GuestSender(0.016, sends=bursts(0.5, 2.5))]
    assert least_share(capped, "an upload") >= 0.9
    of_measured_air = [GuestSender(rtt_s) for rtt_s in (0.016, 0.128) * 3]
    assert least_share(of_measured_air, "an upload", written_bps=None) >= 0.85


@pytest.mark.parametrize("written_bps", [20_000_000, None])
def test_queue_drains_when_the_uncapped_sender_has_gone(written_bps: int | None) -> None:
    guest = GuestSender(0.016, False, sends=lambda seconds: 8 <= seconds < 20)
    air = GuestAccessPoint([*[GuestSender(0.016) for _ in range(3)], guest], written_bps=written_bps)
    air.run(19)
    assert air.place.release.reason is not None and air.queued_s > 0.1
    air.run(30)
    assert air.queued_s < 0.03 and air.place.release.reason is None
    assert all(each > 0.9 * BPS / 3 for each in air.run(5)[:3])


# The rule by itself


def use(bps: float, queue_ms: float, terminal: str = "t1") -> Use:
    return Use(terminal, bps, bps, 10, 16_000 + round(1000 * queue_ms), 16_000)


FULL = [use(9.5e6, 150, "t1"), use(9.5e6, 150, "t2")]
STARVING = [use(1e6, 150, "t1"), use(1e6, 150, "t2")]
BETTER = [use(6e6, 400, "t1"), use(6e6, 400, "t2")]


def after(release: Release, uses: list[Use], seconds: float, now: float) -> tuple[Release, float]:
    for _ in range(round(seconds / TICK_S)):
        now += TICK_S
        release = release.after(uses, BPS, len(uses), 2000.0, now)
    return release, now


def released() -> tuple[Release, float]:
    release, now = after(Release(), STARVING, QUEUED_S + 2 * TICK_S, 100.0)
    assert release.is_on
    return release, now


def test_release_reason_has_figures() -> None:
    release, _ = released()
    assert release.reason == (
        "a queue of 150 ms was measured, of which caps explain 2 ms, and capped terminals delivered 2 of 20 Mbit/s: "
        "a sender without a cap must be active"
    )


@pytest.mark.parametrize(
    "uses",
    [
        pytest.param(FULL, id="terminals deliver the bandwidth"),
        pytest.param([use(1e6, 2)] * 2, id="no queue but that of the caps"),
    ],
)
def test_release_stays_off_without_starvation(uses: list[Use]) -> None:
    release, now = after(Release(), [], 1, 100.0)
    for _ in range(80):
        release, now = after(release, uses, TICK_S, now)
        assert release.reason is None
    assert not release.is_on


def test_caps_return_when_terminals_deliver_the_bandwidth() -> None:
    release, now = released()
    release, now = after(release, FULL, KEPT_S, now)
    release, now = after(release, STARVING, 2.0, now)
    assert release.is_on, "not for a moment"
    release, now = after(release, FULL, KEPT_S + 4.0, now)
    assert not release.is_on


def test_caps_return_when_larger_windows_gain_nothing() -> None:
    release, now = released()
    release, now = after(release, STARVING, TRIAL_S, now)
    assert release.rests and not release.is_on
    release, now = after(release, STARVING, REST_S - 2 * TRIAL_S, now)
    assert not release.is_on
    release, now = after(release, [replace(one, bps=one.bps / 2) for one in STARVING], 2.0, now)
    assert release.is_on, "a lower rate restarts the trial at once"


def test_release_lasts_where_larger_windows_gain_and_is_tested_after_a_while() -> None:
    release, now = released()
    release, now = after(release, BETTER, RETRY_S / 2, now)
    assert release.is_on and release.least_bps == pytest.approx(0.95 * BPS / 3)
    release, now = after(release, BETTER, RETRY_S / 2, now)
    assert not release.is_on
    release, now = after(release, STARVING, 2.0, now)
    assert release.is_on


def test_window_without_lower_limit_lets_two_shares_through() -> None:
    rtt_us, srtt_us = 16_000, 116_000
    part = AirtimeShare(IDEAL, 4, 1)
    one = window(part, rtt_us, srtt_us, None)
    lets = [released_window(part, one, srtt_us, 0.0, shares).most * SEGMENT_US / srtt_us for shares in (0.95, 2.0)]
    assert lets == pytest.approx([0.95 * BANDWIDTH_BPS / 4, 2 * BANDWIDTH_BPS / 4], abs=SEGMENT_US / srtt_us)
