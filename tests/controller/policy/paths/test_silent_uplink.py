# SPDX-License-Identifier: Apache-2.0
"""An uplink that fell silent while others bring packets is named within two reports, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable

from controller.policy.paths.arrivals import ENOUGH_PACKETS, SiteArrivals, silence_after


def after(*reports: tuple[float, int, int], all_is_copied: bool = True) -> SiteArrivals:
    """Each is a moment, and what Wi-Fi and LTE have brought by then."""
    return told(SiteArrivals(), reports, all_is_copied)


def told(site: SiteArrivals, reports: Iterable[tuple[float, int, int]], all_is_copied: bool = True) -> SiteArrivals:
    for now, wifi, lte in reports:
        site = silence_after(site, {"wifi": wifi, "lte": lte}, all_is_copied, now)
    return site


def test_it_is_not_before_enough_has_come_otherwise_and_then_however_slowly() -> None:
    site = after((0, 9, 9), (1, 9, 9 + ENOUGH_PACKETS // 2))
    assert site.silent == {}
    assert told(site, [(2, 9, 9 + ENOUGH_PACKETS)]).silent.keys() == {"wifi"}


def test_nobody_is_silent_where_nothing_flows() -> None:
    assert after((0, 50, 50), (1, 50, 50), (100, 50, 50)).silent == {}


def test_it_stays_silent_while_nothing_flows_any_more() -> None:
    assert after((0, 0, 0), (1, 0, 50), (60, 0, 50)).silent.keys() == {"wifi"}


def test_where_not_all_is_copied_nothing_is_concluded_and_afterwards_it_begins_anew() -> None:
    site = after((0, 0, 0), (1, 0, 100), (2, 0, 200), all_is_copied=False)
    assert site.silent == {}
    assert told(site, [(3, 0, 300)]).silent == {}  # most of these may have come while not all was copied
    assert told(site, [(3, 0, 300), (4, 0, 400)]).silent.keys() == {"wifi"}


def test_counters_that_begin_anew_are_no_news() -> None:
    assert after((0, 50, 50), (1, 0, 20), (1.5, 0, 30)).silent == {}
