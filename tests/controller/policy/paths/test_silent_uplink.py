# SPDX-License-Identifier: Apache-2.0
"""A silent uplink is named within two reports while others deliver. No other uplink is."""

from __future__ import annotations

from collections.abc import Iterable

from controller.policy.paths.arrivals import ENOUGH_PACKETS, SiteArrivals, silence_after


def after(*reports: tuple[float, int, int], all_is_copied: bool = True) -> SiteArrivals:
    """Each report is a time and the packets that Wi-Fi and LTE have delivered by then."""
    return continued(SiteArrivals(), reports, all_is_copied)


def continued(
    site: SiteArrivals, reports: Iterable[tuple[float, int, int]], all_is_copied: bool = True
) -> SiteArrivals:
    for now, wifi, lte in reports:
        site = silence_after(site, {"wifi": wifi, "lte": lte}, all_is_copied, now)
    return site


def test_silence_needs_enough_packets_on_the_other_uplink() -> None:
    site = after((0, 9, 9), (1, 9, 9 + ENOUGH_PACKETS // 2))
    assert site.silent == {}
    assert continued(site, [(2, 9, 9 + ENOUGH_PACKETS)]).silent.keys() == {"wifi"}


def test_silence_begins_only_beside_traffic_and_stays_when_it_ends() -> None:
    assert after((0, 50, 50), (1, 50, 50), (100, 50, 50)).silent == {}
    assert after((0, 50, 50), (1, 0, 20), (1.5, 0, 30)).silent == {}, "the counters were reset"
    assert after((0, 0, 0), (1, 0, 50), (60, 0, 50)).silent.keys() == {"wifi"}


def test_silence_needs_full_copying_since_the_last_report() -> None:
    site = after((0, 0, 0), (1, 0, 100), (2, 0, 200), all_is_copied=False)
    assert site.silent == {}
    assert continued(site, [(3, 0, 300)]).silent == {}  # most of these may have come while copying was partial
    assert continued(site, [(3, 0, 300), (4, 0, 400)]).silent.keys() == {"wifi"}
